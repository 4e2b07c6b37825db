package node

import (
	"io"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// repeatedInstalls is how often the same snapshot may reach the same node before a new
// one is taken. A node that was wiped needs it a second time, and an answer may get
// lost once.
const repeatedInstalls = 3

// watchedTransport sees raft's known livelock, in which a follower that has just
// installed a snapshot, and whose next answer is lost, is sent the same snapshot for
// ever: there is a hole in its log behind the snapshot, and raft looks for the previous
// entry in the log alone. A newer snapshot of the leader's frees it, as it does one that
// refuses a snapshot because it has applied more. Our own log store leaves no such hole;
// this is for followers with another one.
type watchedTransport struct {
	raft.Transport
	contacts *contacts
	stuck    chan<- raft.ServerID // told of a node in that state; one that is not read is dropped

	mu       sync.Mutex
	installs map[raft.ServerID]install // guarded by mu
}

// install is the latest snapshot that a node was sent.
type install struct {
	index uint64
	times int
}

// watchTransport puts a watch on a transport, and passes on what raft asks a transport for besides.
func watchTransport(t raft.Transport, stuck chan<- raft.ServerID, c *contacts) raft.Transport {
	w := &watchedTransport{Transport: t, stuck: stuck, contacts: c, installs: make(map[raft.ServerID]install)}
	if p, ok := t.(raft.WithPreVote); ok {
		return &watchedPreVote{w, p}
	}
	return w
}

// watchedPreVote is a watchedTransport for one that knows pre-votes.
type watchedPreVote struct {
	*watchedTransport
	raft.WithPreVote
}

// AppendEntriesPipeline implements [raft.Transport]: there is none, raft sends one
// append after the other. Packing commands into entries does what a pipeline is for,
// and raft's can stop for good when a leadership is transferred
// (docs/decisions/0018).
func (w *watchedTransport) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}

// AppendEntries implements [raft.Transport]. A heartbeat is one, too.
func (w *watchedTransport) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	question := w.contacts.newest()
	err := w.Transport.AppendEntries(id, target, args, resp)
	if err == nil && resp.Term == args.Term {
		w.contacts.note(id, args.Term, question)
	}
	return err
}

// SetHeartbeatHandler implements [raft.Transport]: heartbeats go the way of all requests.
// raft's handler works beside its main loop, on the same state: a candidate that wins its
// election while the handler takes over the term of another leader, and writes that to the
// disk, leads in a term in which it was not elected.
func (w *watchedTransport) SetHeartbeatHandler(func(raft.RPC)) {}

// InstallSnapshot implements [raft.Transport].
func (w *watchedTransport) InstallSnapshot(id raft.ServerID, target raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	err := w.Transport.InstallSnapshot(id, target, args, resp, data)
	if err == nil && resp.Success || refusedAsOlder(err) {
		w.installed(id, args.LastLogIndex)
	}
	return err
}

func (w *watchedTransport) installed(id raft.ServerID, index uint64) {
	w.mu.Lock()
	i := w.installs[id]
	if i.index != index {
		i = install{index: index}
	}
	i.times++
	w.installs[id] = i
	w.mu.Unlock()
	if i.times < repeatedInstalls {
		return
	}
	select {
	case w.stuck <- id:
	default:
	}
}

// Close implements [raft.WithClose].
func (w *watchedTransport) Close() error {
	if c, ok := w.Transport.(raft.WithClose); ok {
		return c.Close()
	}
	return nil
}

// freeEvery is how often at most a snapshot is taken for the sake of a stuck node.
const freeEvery = time.Second

// freeStuck takes a new snapshot whenever a node is sent the same one again and again.
func (n *Node) freeStuck() {
	for {
		select {
		case id := <-n.stuck:
			n.logger.Warn("a node is sent the same snapshot again and again: taking a new one", "node", id)
			n.batcher.wantTick() // raft takes no snapshot when nothing is new
			timer := time.NewTimer(freeEvery)
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
