package logstore

import (
	"os"
	"sync"

	"github.com/hashicorp/raft"
	"go.etcd.io/bbolt"
)

// Store is a raft.LogStore, raft.StableStore and raft.CommitTrackingLogStore in one bbolt file. Make one with
// [Open]. All methods are safe for concurrent use.
//
// It is deliberately not a raft.MonotonicLogStore; the package documentation says why.
type Store struct {
	path string
	opts Options
	lock *os.File
	db   *bbolt.DB

	// closeMu is held shared by every call and exclusively by Close, so that the file is not unmapped under a
	// reader. It guards closed.
	closeMu sync.RWMutex
	closed  bool

	// mu serializes changes. It is taken after closeMu and guards the fields below, up to the blank
	// line.
	mu        sync.Mutex
	current   state          // what the file holds
	staged    uint64         // commit index for the next StoreLogs
	buf       []byte         // encoded entries of one StoreLogs
	deleteBuf []deletedEntry // entries of one step of DeleteRange

	committed  committed // the part of current that readers need; written under mu
	failStop   failStop
	compactErr error // written by Open alone
}

var (
	_ raft.LogStore               = (*Store)(nil)
	_ raft.StableStore            = (*Store)(nil)
	_ raft.CommitTrackingLogStore = (*Store)(nil)
)

// change is the body of one transaction. It updates next to what the file will hold.
type change func(tx *bbolt.Tx, next *state) error

// FirstIndex returns the lowest stored index, 0 for an empty log.
func (s *Store) FirstIndex() (uint64, error) { return s.committed.first.Load(), s.usable() }

// LastIndex returns the highest stored index, 0 for an empty log.
func (s *Store) LastIndex() (uint64, error) { return s.committed.last.Load(), s.usable() }

// GetLog fills log with a copy of the entry. An index that is not stored gives raft.ErrLogNotFound, with one
// exception: see [Options].Snapshots.
func (s *Store) GetLog(index uint64, log *raft.Log) error {
	if err := s.usable(); err != nil {
		return err
	}
	if index < s.committed.first.Load() || index > s.committed.last.Load() {
		return s.snapshotEntry(index, log)
	}
	found := false
	err := s.view("read a log entry", func(tx *bbolt.Tx) error {
		key := indexKey(index)
		v := storedEntry(tx.Bucket(bucketLog), key[:])
		if v == nil {
			return nil
		}
		found = true
		if err := decodeEntry(index, v, log); err != nil {
			return &CorruptError{File: s.path, Bucket: string(bucketLog), Key: indexName(index), Reason: err.Error()}
		}
		return nil
	})
	if err == nil && !found {
		return s.snapshotEntry(index, log)
	}
	return err
}

// storedEntry returns the stored form of an entry, nil if there is none. It points into the mapped file.
func storedEntry(log *bbolt.Bucket, key []byte) []byte {
	if v := log.Get(key); v != nil {
		return v
	}
	if large := log.Bucket(key); large != nil {
		return large.Get(keyLarge)
	}
	return nil
}

// usable returns the failure of the store, if it has one, or ErrClosed.
func (s *Store) usable() error {
	if f := s.failStop.failure(); f != nil {
		return f
	}
	s.closeMu.RLock()
	defer s.closeMu.RUnlock()
	if s.closed {
		return ErrClosed
	}
	return nil
}

// view runs a read transaction. Any error of fn is a failure of the store.
func (s *Store) view(op string, fn func(*bbolt.Tx) error) error {
	return s.notifyFailure(func() (*failure, error) {
		s.closeMu.RLock()
		defer s.closeMu.RUnlock()
		if err := s.usableLocked(); err != nil {
			return nil, err
		}
		return s.failStop.fail(op, s.guard(func() error { return s.db.View(fn) }))
	})
}

// change plans a change and carries it out in one transaction, all under mu. An error of plan
// refuses the call and leaves the store usable; a nil change means that there is nothing to do. Any
// error after that is a failure of the store: the change may or may not have reached the disk, and
// bbolt would acknowledge the next one as if nothing had happened.
func (s *Store) change(op string, plan func() (change, error)) error {
	return s.notifyFailure(func() (*failure, error) {
		s.closeMu.RLock()
		defer s.closeMu.RUnlock()
		s.mu.Lock()
		defer s.mu.Unlock()
		if err := s.usableLocked(); err != nil {
			return nil, err
		}
		fn, err := plan()
		if err != nil || fn == nil {
			return nil, err
		}
		next := s.current
		err = s.guard(func() error {
			return s.db.Update(func(tx *bbolt.Tx) error {
				if err := fn(tx, &next); err != nil {
					return err
				}
				return next.put(tx)
			})
		})
		if err != nil {
			return s.failStop.fail(op, err)
		}
		s.publishLocked(next)
		s.committed.count.Add(1)
		return nil, nil
	})
}

// notifyFailure runs fn and then, without any lock, informs the owner if it was fn that made the
// store fail.
func (s *Store) notifyFailure(fn func() (*failure, error)) error {
	mine, err := fn()
	if mine != nil && s.opts.OnFailure != nil {
		s.opts.OnFailure(mine)
	}
	return err
}

func (s *Store) usableLocked() error {
	if f := s.failStop.failure(); f != nil {
		return f
	}
	if s.closed {
		return ErrClosed
	}
	return nil
}

// publishLocked makes a committed state visible to readers.
func (s *Store) publishLocked(next state) {
	if next.last < s.current.last {
		s.staged = min(s.staged, next.last) // it may concern entries that are gone
	}
	s.current = next
	s.committed.set(next)
}

// guard turns a panic of bbolt, and a fault while it touches the mapped file, into an error. See
// [failStop.guard].
func (s *Store) guard(fn func() error) error { return s.failStop.guard(s.path, fn) }
