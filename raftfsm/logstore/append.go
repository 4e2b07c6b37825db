package logstore

import (
	"fmt"

	"github.com/hashicorp/raft"
	"go.etcd.io/bbolt"
)

const (
	// largeEntry: a stored entry of this size or more gets a bucket, and thereby pages, of its own.
	// bbolt rewrites the last leaf with every append, and a leaf keeps up to four values together,
	// whatever their size: with entries of 128 KiB that multiplied the bytes written by about four.
	largeEntry = 8 << 10

	// keepBuf is how much encoding buffer is kept between calls.
	keepBuf = 4 << 20
)

// StoreLog stores one entry. See [Store.StoreLogs].
func (s *Store) StoreLog(log *raft.Log) error { return s.StoreLogs([]*raft.Log{log}) }

// StoreLogs appends entries in one transaction: when it returns nil all of them are on the disk, with the
// staged commit index, at the cost of two fdatasync; after an error none of them counts.
//
// The entries must be consecutive and come after the last one. They may leave a hole after it: raft does that
// after it has installed or restored a snapshot. Anything else is refused with [ErrOutOfOrder] and changes
// nothing, since it would overwrite what may be committed: raft deletes a conflicting tail first.
func (s *Store) StoreLogs(logs []*raft.Log) error {
	if len(logs) == 0 {
		return s.usable()
	}
	edge, err := s.entryBeforeGap(logs[0].Index)
	if err != nil {
		return err
	}
	return s.change("append to the log", func() (change, error) {
		if err := s.checkAppendLocked(logs); err != nil {
			return nil, err
		}
		return func(tx *bbolt.Tx, next *state) error {
			if edge > 0 && edge == next.last {
				if _, err := s.deleteStepLocked(tx, next, edge, edge); err != nil {
					return err
				}
			}
			return s.appendLocked(tx, next, logs)
		}, nil
	})
}

func (s *Store) checkAppendLocked(logs []*raft.Log) error {
	if first := logs[0].Index; first <= s.current.last {
		return fmt.Errorf("%w: entry %d was to be stored after entry %d", ErrOutOfOrder, first, s.current.last)
	}
	for i, l := range logs {
		if want := logs[0].Index + uint64(i); l.Index != want || want == 0 {
			return fmt.Errorf("%w: entry %d in the place of entry %d", ErrOutOfOrder, l.Index, want)
		}
		if n := len(l.Data) + len(l.Extensions); n > MaxEntryBytes {
			return fmt.Errorf("%w: entry %d has %d bytes, the most is %d", ErrLimit, l.Index, n, MaxEntryBytes)
		}
	}
	return nil
}

func (s *Store) appendLocked(tx *bbolt.Tx, next *state, logs []*raft.Log) error {
	size := 0
	for _, l := range logs {
		size += entrySize(l)
	}
	// bbolt refers to the values until the commit: each needs its own place in the buffer.
	if cap(s.buf) < size {
		s.buf = make([]byte, 0, size)
	}
	buf := s.buf[:0]
	if cap(s.buf) > keepBuf {
		s.buf = nil
	}

	log := tx.Bucket(bucketLog)
	log.FillPercent = 1 // keys only ever grow: a page split in half would stay half empty
	for _, l := range logs {
		at := len(buf)
		var sum uint32
		buf, sum = appendEntry(buf, l)
		if err := putEntry(log, l.Index, buf[at:]); err != nil {
			return err
		}
		next.entries++
		next.entrySum ^= sum
	}
	if next.first == 0 {
		next.first = logs[0].Index
	}
	next.last = logs[len(logs)-1].Index
	next.commit = min(s.staged, next.last)
	return nil
}

func putEntry(log *bbolt.Bucket, index uint64, v []byte) error {
	key := indexKey(index)
	if len(v) < largeEntry {
		return log.Put(key[:], v)
	}
	large, err := log.CreateBucket(key[:])
	if err != nil {
		return err
	}
	return large.Put(keyLarge, v)
}

// StageCommitIndex remembers a commit index that the next StoreLogs writes with its entries. Until then it is
// in memory only. The last one staged counts; deleting the tail of the log lowers it with the log.
func (s *Store) StageCommitIndex(index uint64) error {
	if err := s.usable(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.staged = index
	return nil
}

// GetCommitIndex returns the commit index that was stored with the last entries; it is at most the
// last index, and 0 when none was stored.
func (s *Store) GetCommitIndex() (uint64, error) { return s.committed.commit.Load(), s.usable() }
