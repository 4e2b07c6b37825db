package node

import (
	"io"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/node/readindex"
)

// maxRepeatedInstalls is how often the same snapshot may reach the same node before a new one is
// taken. A node that was wiped needs it a second time, and a response may be lost once.
const maxRepeatedInstalls = 3

// guardedTransport detects raft's known snapshot loop (docs/decisions/0017): a follower that has
// just installed a snapshot, and whose next response is lost, is sent the same snapshot for
// ever, because its log has a gap at the snapshot's last index, and raft looks for the previous
// entry in the log alone. A newer snapshot of the leader ends the loop, also for a follower that
// rejects a snapshot because it has applied more. This release's log store leaves no such gap;
// the guard is for followers with another store.
type guardedTransport struct {
	raft.Transport
	acks          *readindex.AckTracker
	snapshotLoops chan<- raft.ServerID // receives each node in such a loop; dropped when the channel is full

	mu            sync.Mutex
	sentSnapshots map[raft.ServerID]sentSnapshot // guarded by mu
}

// sentSnapshot is the latest snapshot that was sent to a node, and how often.
type sentSnapshot struct {
	index uint64
	times int
}

// guardTransport wraps a transport, and keeps its optional interface for pre-votes.
func guardTransport(t raft.Transport, snapshotLoops chan<- raft.ServerID, c *readindex.AckTracker) raft.Transport {
	w := &guardedTransport{Transport: t, snapshotLoops: snapshotLoops, acks: c, sentSnapshots: make(map[raft.ServerID]sentSnapshot)}
	if p, ok := t.(raft.WithPreVote); ok {
		return &guardedPreVote{w, p}
	}
	return w
}

// guardedPreVote is a guardedTransport for a transport that supports pre-votes.
type guardedPreVote struct {
	*guardedTransport
	raft.WithPreVote
}

// AppendEntriesPipeline implements [raft.Transport]: pipelining is disabled, so raft sends one
// append after the other. Packing commands into entries serves the purpose of a pipeline, and
// raft's pipeline can stop for good when the leadership is transferred (docs/decisions/0018).
func (w *guardedTransport) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}

// AppendEntries implements [raft.Transport]. A heartbeat is an AppendEntries request, too.
func (w *guardedTransport) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	round := w.acks.CurrentRound()
	err := w.Transport.AppendEntries(id, target, args, resp)
	if err == nil && resp.Term == args.Term {
		w.acks.Record(id, args.Term, round)
	}
	return err
}

// SetHeartbeatHandler implements [raft.Transport]: heartbeats are handled like all requests
// (docs/decisions/0021). raft's handler runs concurrently with its main loop, on the same state:
// a candidate that wins its election while the handler adopts the term of another leader, and
// writes that to the disk, leads in a term in which it was not elected.
func (w *guardedTransport) SetHeartbeatHandler(func(raft.RPC)) {}

// InstallSnapshot implements [raft.Transport].
func (w *guardedTransport) InstallSnapshot(id raft.ServerID, target raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	err := w.Transport.InstallSnapshot(id, target, args, resp, data)
	if err == nil && resp.Success || isStaleSnapshotError(err) {
		w.recordInstall(id, args.LastLogIndex)
	}
	return err
}

func (w *guardedTransport) recordInstall(id raft.ServerID, index uint64) {
	w.mu.Lock()
	i := w.sentSnapshots[id]
	if i.index != index {
		i = sentSnapshot{index: index}
	}
	i.times++
	w.sentSnapshots[id] = i
	w.mu.Unlock()
	if i.times < maxRepeatedInstalls {
		return
	}
	select {
	case w.snapshotLoops <- id:
	default:
	}
}

// Close implements [raft.WithClose].
func (w *guardedTransport) Close() error {
	if c, ok := w.Transport.(raft.WithClose); ok {
		return c.Close()
	}
	return nil
}

// loopBreakInterval is the least time between two snapshots that are taken to break a loop.
const loopBreakInterval = time.Second

// breakSnapshotLoops takes a new snapshot whenever a node is in a snapshot loop.
func (n *Node) breakSnapshotLoops() {
	for {
		select {
		case id := <-n.snapshotLoops:
			n.logger.Warn("a node is sent the same snapshot again and again: taking a new one", "node", id)
			n.proposals.RequestTick() // raft takes no snapshot when nothing is new
			timer := time.NewTimer(loopBreakInterval)
			select {
			case <-timer.C:
			case <-n.closing:
				timer.Stop()
				return
			}
			if err := n.Snapshot(); err != nil {
				n.logger.Warn("snapshot failed", "error", err)
			}
		case <-n.closing:
			return
		}
	}
}
