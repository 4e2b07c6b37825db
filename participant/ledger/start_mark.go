package ledger

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"github.com/txmgr/txmgr/txn"
)

// startMark says when a branch began, in the ledger's own time: how many outcomes had come by
// then, or fewer. As long as none that came later was forgotten, a branch of which no outcome
// is recorded has none. The zero startMark is not known.
//
// Its text form is the session reference that the application enlists with: "ends=123".
type startMark struct {
	ends  uint64
	known bool
}

// String gives the text form, empty when it is not known.
func (b startMark) String() string {
	if !b.known {
		return ""
	}
	return fmt.Sprintf("ends=%d", b.ends)
}

// parseStartMark reads the text form, and no other text. The error is [txn.ErrInvalid].
func parseStartMark(text string) (startMark, error) {
	b := startMark{known: true}
	if _, err := fmt.Sscanf(text, "ends=%d", &b.ends); err != nil || b.String() != text {
		return startMark{}, fmt.Errorf("%w: session of a ledger: want a text like %q", txn.ErrInvalid, startMark{1, true})
	}
	return b, nil
}

// maxMarkAge is how long a count of outcomes may be used for new branches. An older one proves
// the same, but for a shorter time: outcomes that came since are forgotten sooner.
const maxMarkAge = time.Minute

// startMark returns the mark for a branch that begins now. It reads the file only when that was
// not done lately.
func (s *store) startMark(ctx context.Context) (startMark, error) {
	s.mu.Lock()
	last, at := s.lastEnds, s.lastRead
	s.mu.Unlock()
	if !at.IsZero() && time.Since(at) < maxMarkAge {
		return startMark{last, true}, nil
	}
	var ends uint64
	err := s.view(ctx, func(tx *bbolt.Tx) error {
		order := tx.Bucket(bucketOrder)
		if order == nil {
			return errNewFile
		}
		ends = order.Sequence()
		return nil
	})
	if err != nil {
		return startMark{}, err
	}
	s.recordEnds(ends)
	return startMark{ends, true}, nil
}

// recordEnds records the count of outcomes that was just durable in the file.
func (s *store) recordEnds(ends uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastEnds, s.lastRead = max(s.lastEnds, ends), time.Now()
}

// mayHaveForgotten reports whether an outcome that came after a branch began may have been
// forgotten.
func mayHaveForgotten(tx *bbolt.Tx, b startMark) (bool, error) {
	order := tx.Bucket(bucketOrder)
	if order == nil {
		return false, errNewFile
	}
	oldest := order.Sequence() + 1 // no outcome is retained
	if key, _ := order.Cursor().First(); key != nil {
		if len(key) != 8 {
			return false, fmt.Errorf("%w: key %x in %s", ErrCorrupt, key, bucketOrder)
		}
		oldest = binary.BigEndian.Uint64(key)
	}
	return oldest > b.ends+1, nil
}
