package logstore

import (
	"encoding/binary"

	"go.etcd.io/bbolt"
)

// deleteStep is how many entries one transaction of DeleteRange removes. Between two of them an
// append can proceed: after a snapshot raft truncates in another goroutine than it appends.
const deleteStep = 512

// deletedEntry is an entry that a step of DeleteRange removes.
type deletedEntry struct {
	index uint64
	sum   uint32
	large bool
}

// DeleteRange removes the entries from low to high, inclusive, as far as they exist.
//
// It works in bounded transactions, and a crash may leave a part of the range: the tail of the log
// is removed from its end, any other range from its beginning, so that no crash leaves a hole.
func (s *Store) DeleteRange(low, high uint64) error {
	for more := true; more; {
		err := s.change("delete log entries", func() (change, error) {
			from, to := max(low, s.current.first), min(high, s.current.last)
			if s.current.last == 0 || from > to {
				more = false
				return nil, nil
			}
			return func(tx *bbolt.Tx, next *state) (err error) {
				more, err = s.deleteStepLocked(tx, next, from, to)
				return err
			}, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// deleteStepLocked removes some of the entries from..to, which lie within first..last, and reports whether
// there are more.
func (s *Store) deleteStepLocked(tx *bbolt.Tx, next *state, from, to uint64) (bool, error) {
	log := tx.Bucket(bucketLog)
	tail := to == next.last
	beyond, more, err := s.collectLocked(log, from, to, tail)
	if err != nil {
		return false, err
	}
	for _, d := range s.deleteBuf {
		key := indexKey(d.index)
		remove := log.Delete
		if d.large {
			remove = log.DeleteBucket
		}
		if err := remove(key[:]); err != nil {
			return false, err
		}
		next.entries--
		next.entrySum ^= d.sum
	}
	switch {
	case next.entries == 0:
		next.first, next.last = 0, 0
	case tail:
		next.last = beyond
	case from == next.first:
		next.first = beyond
	}
	next.commit = min(next.commit, next.last)
	return more, nil
}

// collectLocked fills s.deleteBuf with at most deleteStep entries of from..to, beginning at the end
// of the range if tail is set. beyond is the entry that follows in that direction, 0 if there is
// none.
func (s *Store) collectLocked(log *bbolt.Bucket, from, to uint64, tail bool) (beyond uint64, more bool, err error) {
	s.deleteBuf = s.deleteBuf[:0]
	c := log.Cursor()
	start, step := from, c.Next
	if tail {
		start, step = to, c.Prev
	}
	key := indexKey(start)
	for k, v := c.Seek(key[:]); k != nil; k, v = step() {
		index := keyIndex(k)
		if inside := from <= index && index <= to; !inside || len(s.deleteBuf) == deleteStep {
			return index, inside, nil
		}
		d := deletedEntry{index: index, large: v == nil}
		if d.large {
			v = storedEntry(log, k)
		}
		if len(v) < sumBytes {
			return 0, false, &CorruptError{File: s.path, Bucket: string(bucketLog), Key: indexName(index), Reason: errShort.Error()}
		}
		d.sum = binary.BigEndian.Uint32(v)
		s.deleteBuf = append(s.deleteBuf, d)
	}
	return 0, false, nil
}
