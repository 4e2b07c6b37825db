package raftguard

import (
	"io"
	"sync"

	"github.com/hashicorp/raft"
)

// The defect: a follower that has just installed a snapshot, and whose next response is lost, is sent
// the same snapshot for ever (docs/decisions/0017): its log has a gap at the snapshot's last index, and
// raft looks for the previous entry in the log alone. The same happens to a follower that rejects a
// snapshot because it has applied more. A newer snapshot of the leader ends the loop; the node takes it
// (node/snapshots/break_loops.go). Our log store leaves no such gap: the guard is for
// followers with another one.

// maxRepeatedInstalls is how often the same snapshot may reach the same node before a new one is
// taken. A node that was wiped needs it a second time, and a response may be lost once.
const maxRepeatedInstalls = 3

// installs counts the snapshots that reach other nodes.
type installs struct {
	loops chan<- raft.ServerID // receives each node that is sent one snapshot for ever; dropped when the channel is full

	mu   sync.Mutex
	sent map[raft.ServerID]sentSnapshot // guarded by mu
}

// sentSnapshot is the latest snapshot that was sent to a node, and how often.
type sentSnapshot struct {
	index uint64
	times int
}

// InstallSnapshot implements [raft.Transport].
func (w *guardedTransport) InstallSnapshot(id raft.ServerID, target raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	err := w.Transport.InstallSnapshot(id, target, args, resp, data)
	if err == nil && resp.Success || isStaleSnapshotError(err) {
		w.installs.record(id, args.LastLogIndex)
	}
	return err
}

// record counts a snapshot that has reached a node, and reports a loop.
func (s *installs) record(id raft.ServerID, index uint64) {
	s.mu.Lock()
	i := s.sent[id]
	if i.index != index {
		i = sentSnapshot{index: index}
	}
	i.times++
	s.sent[id] = i
	s.mu.Unlock()
	if i.times < maxRepeatedInstalls {
		return
	}
	select {
	case s.loops <- id:
	default:
	}
}
