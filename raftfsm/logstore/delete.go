package logstore

import (
	"encoding/binary"
	"errors"

	"github.com/txmgr/txmgr/raftfsm/wal"
)

// DeleteRange removes the entries from low to high, inclusive, as far as they exist: when it returns nil that is on the
// disk, at the cost of one fdatasync, and a few more when files are not needed any more. A crash leaves all of them or
// none.
func (s *Store) DeleteRange(low, high uint64) error {
	return s.change("delete log entries", func() (func() error, error) {
		first, last := s.entries.bounds()
		low, high := max(low, first), min(high, last)
		left := s.entries.without(low, high)
		if low > high || left.count() == s.entries.count() {
			return nil, nil
		}
		return func() error { return s.deleteLocked(low, high, left) }, nil
	})
}

func (s *Store) deleteLocked(low, high uint64, left index) error {
	_, last := left.bounds()
	f := wal.Frame{Kind: wal.Deletion, Index: low, Commit: min(s.commit, last), Body: binary.BigEndian.AppendUint64(nil, high)}
	if _, err := s.log.Append(f); err != nil {
		return err
	}
	if _, before := s.entries.bounds(); last < before {
		s.staged = min(s.staged, last) // it may concern entries that are gone
	}
	s.view.Lock()
	s.entries, s.commit = left, f.Commit
	s.view.Unlock() // no reader reads what is gone from here on
	return s.log.Release(left.oldest())
}

// rangeIn returns the range of a deletion.
func rangeIn(f wal.Frame) (low, high uint64, err error) {
	if len(f.Body) != 8 {
		return 0, 0, errors.New("a deletion without its end")
	}
	return f.Index, binary.BigEndian.Uint64(f.Body), nil
}
