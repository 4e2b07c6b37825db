package node

import (
	"io"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// maxRepeatedInstalls is how often the same snapshot may reach the same node before a new
// one is taken. A node that was wiped needs it a second time, and an answer may get
// lost once.
const maxRepeatedInstalls = 3

// guardedTransport sees raft's known livelock, in which a follower that has just
// installed a snapshot, and whose next answer is lost, is sent the same snapshot for
// ever: there is a hole in its log behind the snapshot, and raft looks for the previous
// entry in the log alone. A newer snapshot of the leader's frees it, as it does one that
// refuses a snapshot because it has applied more. Our own log store leaves no such hole;
// this is for followers with another one.
type guardedTransport struct {
	raft.Transport
	acks          *ackTracker
	snapshotLoops chan<- raft.ServerID // told of a node in that state; one that is not read is dropped

	mu            sync.Mutex
	sentSnapshots map[raft.ServerID]sentSnapshot // guarded by mu
}

// sentSnapshot is the latest snapshot that a node was sent.
type sentSnapshot struct {
	index uint64
	times int
}

// guardTransport puts a watch on a transport, and passes on what raft asks a transport for besides.
func guardTransport(t raft.Transport, snapshotLoops chan<- raft.ServerID, c *ackTracker) raft.Transport {
	w := &guardedTransport{Transport: t, snapshotLoops: snapshotLoops, acks: c, sentSnapshots: make(map[raft.ServerID]sentSnapshot)}
	if p, ok := t.(raft.WithPreVote); ok {
		return &guardedPreVote{w, p}
	}
	return w
}

// guardedPreVote is a watchedTransport for one that knows pre-votes.
type guardedPreVote struct {
	*guardedTransport
	raft.WithPreVote
}

// AppendEntriesPipeline implements [raft.Transport]: there is none, raft sends one
// append after the other. Packing commands into entries does what a pipeline is for,
// and raft's can stop for good when a leadership is transferred
// (docs/decisions/0018).
func (w *guardedTransport) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}

// AppendEntries implements [raft.Transport]. A heartbeat is one, too.
func (w *guardedTransport) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	round := w.acks.currentRound()
	err := w.Transport.AppendEntries(id, target, args, resp)
	if err == nil && resp.Term == args.Term {
		w.acks.record(id, args.Term, round)
	}
	return err
}

// SetHeartbeatHandler implements [raft.Transport]: heartbeats go the way of all requests.
// raft's handler works beside its main loop, on the same state: a candidate that wins its
// election while the handler takes over the term of another leader, and writes that to the
// disk, leads in a term in which it was not elected.
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

// loopBreakInterval is how often at most a snapshot is taken for the sake of a stuck node.
const loopBreakInterval = time.Second

// breakSnapshotLoops takes a new snapshot whenever a node is sent the same one again and again.
func (n *Node) breakSnapshotLoops() {
	for {
		select {
		case id := <-n.snapshotLoops:
			n.logger.Warn("a node is sent the same snapshot again and again: taking a new one", "node", id)
			n.proposals.requestTick() // raft takes no snapshot when nothing is new
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
