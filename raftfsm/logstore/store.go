package logstore

import (
	"os"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/raftfsm/wal"
)

// Store is a raft.LogStore, raft.StableStore and raft.CommitTrackingLogStore. Make one with [Open]. All methods are
// safe for concurrent use.
//
// It is deliberately not a raft.MonotonicLogStore; the package documentation says why.
type Store struct {
	path string
	opts Options
	lock *os.File

	// mu serializes changes. It guards the fields below, up to the blank line.
	mu     sync.Mutex
	log    *wal.Log
	staged uint64 // commit index for the next StoreLogs
	buf    []byte // encoded entries of one StoreLogs

	// view is held shared by reads and exclusively to change what they see. It is taken after mu, and guards the
	// fields below.
	view     sync.RWMutex
	entries  index
	commit   uint64            // commit index stored with the last entries
	settings map[string][]byte // raft's term and vote, and what the node keeps; never changed, but replaced
	closed   bool

	failStop      failStop
	settingsSyncs atomic.Uint64
}

var (
	_ raft.LogStore               = (*Store)(nil)
	_ raft.StableStore            = (*Store)(nil)
	_ raft.CommitTrackingLogStore = (*Store)(nil)
)

// FirstIndex returns the lowest stored index, 0 for an empty log.
func (s *Store) FirstIndex() (first uint64, err error) {
	err = s.look(func() { first, _ = s.entries.bounds() })
	return first, err
}

// LastIndex returns the highest stored index, 0 for an empty log.
func (s *Store) LastIndex() (last uint64, err error) {
	err = s.look(func() { _, last = s.entries.bounds() })
	return last, err
}

// GetCommitIndex returns the commit index that was stored with the last entries; it is at most the
// last index, and 0 when none was stored.
func (s *Store) GetCommitIndex() (commit uint64, err error) {
	err = s.look(func() { commit = s.commit })
	return commit, err
}

// GetLog fills log with a copy of the entry. An index that is not stored gives raft.ErrLogNotFound, with one
// exception: see [Options].Snapshots.
func (s *Store) GetLog(index uint64, log *raft.Log) error {
	found := false
	err := s.read("read a log entry", func() error {
		e, ok := s.entries.find(index)
		if found = ok; !ok {
			return nil
		}
		b := make([]byte, e.size)
		if err := e.frame.ReadAt(int64(e.at), b); err != nil {
			return err
		}
		if err := decodeEntry(index, b, log); err != nil {
			file, at := e.frame.Place(int64(e.at))
			return &CorruptError{File: file, Offset: at, Key: indexName(index), Reason: err.Error()}
		}
		return nil
	})
	if err == nil && !found {
		return s.snapshotEntry(index, log)
	}
	return err
}

// look runs fn on what readers see.
func (s *Store) look(fn func()) error {
	s.view.RLock()
	defer s.view.RUnlock()
	if err := s.usableLocked(); err != nil {
		return err
	}
	fn()
	return nil
}

// read runs fn on what readers see. Any error of fn is a failure of the store.
func (s *Store) read(op string, fn func() error) error {
	return s.notifyFailure(func() (*failure, error) {
		s.view.RLock()
		defer s.view.RUnlock()
		if err := s.usableLocked(); err != nil {
			return nil, err
		}
		return s.failStop.fail(op, fn())
	})
}

// change runs plan and then what it returns, under mu. An error of plan refuses the call and leaves the store usable;
// nil means that there is nothing to do. Any error after that is a failure of the store: the change may or may not
// have reached the disk.
func (s *Store) change(op string, plan func() (func() error, error)) error {
	return s.notifyFailure(func() (*failure, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if err := s.look(func() {}); err != nil {
			return nil, err
		}
		fn, err := plan()
		if err != nil || fn == nil {
			return nil, err
		}
		return s.failStop.fail(op, fn())
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
