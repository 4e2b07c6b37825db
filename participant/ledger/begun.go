package ledger

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"github.com/txmgr/txmgr/txn"
)

// begun says when a session began, in the ledger's own time: how many ends had
// come by then, or fewer. As long as none that came later was forgotten, a branch
// of which no end is on record has none. The zero begun is not known.
//
// Its text form is the session that the application enlists with: "ends=123".
type begun struct {
	ends  uint64
	known bool
}

// String gives the text form, empty when it is not known.
func (b begun) String() string {
	if !b.known {
		return ""
	}
	return fmt.Sprintf("ends=%d", b.ends)
}

// parseBegun reads the text form, and no other text. The error is [txn.ErrInvalid].
func parseBegun(text string) (begun, error) {
	b := begun{known: true}
	if _, err := fmt.Sscanf(text, "ends=%d", &b.ends); err != nil || b.String() != text {
		return begun{}, fmt.Errorf("%w: session of a ledger: want a text like %q", txn.ErrInvalid, begun{1, true})
	}
	return b, nil
}

// fresh is how long a count of ends is good enough for a new session. An older one
// proves the same, but for a shorter time: ends that came since are forgotten
// sooner.
const fresh = time.Minute

// begun tells a session that begins now what to remember. It reads the file only
// when nobody has done so lately.
func (s *store) begun(ctx context.Context) (begun, error) {
	s.mu.Lock()
	last, at := s.lastEnds, s.lastLook
	s.mu.Unlock()
	if !at.IsZero() && time.Since(at) < fresh {
		return begun{last, true}, nil
	}
	var ends uint64
	err := s.view(ctx, func(tx *bbolt.Tx) error {
		order := tx.Bucket(bucketOrder)
		if order == nil {
			return errNew
		}
		ends = order.Sequence()
		return nil
	})
	if err != nil {
		return begun{}, err
	}
	s.saw(ends)
	return begun{ends, true}, nil
}

// saw records what was durable in the file a moment ago.
func (s *store) saw(ends uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastEnds, s.lastLook = max(s.lastEnds, ends), time.Now()
}

// forgot reports whether an end that came after a session began may have been
// forgotten.
func forgot(tx *bbolt.Tx, b begun) (bool, error) {
	order := tx.Bucket(bucketOrder)
	if order == nil {
		return false, errNew
	}
	oldest := order.Sequence() + 1 // nothing is kept
	if key, _ := order.Cursor().First(); key != nil {
		if len(key) != 8 {
			return false, fmt.Errorf("%w: key %x in %s", ErrCorrupt, key, bucketOrder)
		}
		oldest = binary.BigEndian.Uint64(key)
	}
	return oldest > b.ends+1, nil
}
