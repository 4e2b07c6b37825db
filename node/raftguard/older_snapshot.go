package raftguard

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// The defect: raft installs a snapshot that is older than what it has applied.

// staleSnapshotGuard keeps raft from installing a snapshot that is older than what it has applied.
// raft would go back to it, and then look for entries that it has already removed from its log: it
// panics. A leader sends such a snapshot when its requests waited, as they do at a node that was
// suspended, and arrive in another order; and when all answers to its entries were lost for so long
// that the follower has shortened its log beyond what the leader believes it to have.
//
// The guard stands between raft and both its snapshot store and its state machine. raft writes its
// own snapshots by [raft.FSMSnapshot], which distinguishes the two kinds.
type staleSnapshotGuard struct{ raft atomic.Pointer[raft.Raft] }

// errStaleSnapshot reaches the leader as text.
var errStaleSnapshot = errors.New("the snapshot is older than what this node has applied")

// isStaleSnapshotError reports whether a node refused a snapshot with errStaleSnapshot.
func isStaleSnapshotError(err error) bool {
	return err != nil && strings.Contains(err.Error(), errStaleSnapshot.Error())
}

// guardedSnapshotStore is a snapshot store that refuses stale snapshots of the leader.
type guardedSnapshotStore struct {
	raft.SnapshotStore
	guard *staleSnapshotGuard
}

// Create implements [raft.SnapshotStore].
func (s guardedSnapshotStore) Create(v raft.SnapshotVersion, index, term uint64, conf raft.Configuration, confIndex uint64, t raft.Transport) (raft.SnapshotSink, error) {
	sink, err := s.SnapshotStore.Create(v, index, term, conf, confIndex, t)
	if err != nil {
		return nil, err
	}
	return &guardedSink{SnapshotSink: sink, guard: s.guard, index: index}, nil
}

// guardedSink is a snapshot that is being written: one sent by the leader, unless the node's own
// state machine writes it.
type guardedSink struct {
	raft.SnapshotSink
	guard *staleSnapshotGuard
	index uint64
	own   bool
}

// Close implements [raft.SnapshotSink]. It is called by the goroutine that applies entries:
// no further one is applied before raft installs the snapshot.
func (s *guardedSink) Close() error {
	if s.own {
		return s.SnapshotSink.Close()
	}
	r := s.guard.raft.Load()
	if r == nil {
		return errors.Join(errors.New("this node is about to start"), s.Cancel())
	}
	if applied := r.AppliedIndex(); s.index < applied {
		return errors.Join(fmt.Errorf("%w: it reaches to entry %d, and entry %d is applied", errStaleSnapshot, s.index, applied), s.Cancel())
	}
	return s.SnapshotSink.Close()
}

// guardedFSM is a state machine that marks its own snapshots.
type guardedFSM struct{ raft.FSM }

// Snapshot implements [raft.FSM].
func (f guardedFSM) Snapshot() (raft.FSMSnapshot, error) {
	s, err := f.FSM.Snapshot()
	if err != nil {
		return nil, err
	}
	return localSnapshot{s}, nil
}

type localSnapshot struct{ raft.FSMSnapshot }

// Persist implements [raft.FSMSnapshot].
func (s localSnapshot) Persist(sink raft.SnapshotSink) error {
	if i, ok := sink.(*guardedSink); ok {
		i.own = true
	}
	return s.FSMSnapshot.Persist(sink)
}
