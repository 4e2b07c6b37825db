package peer

import (
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/raft"
)

// Transport is a transport of raft that can ask for votes beforehand.
type Transport interface {
	raft.Transport
	raft.WithPreVote
}

// Progress is how far this node, as leader, has got with another.
//
// raft v1.8.0 can send the same snapshot to a follower for ever: when the follower
// has installed it and the acknowledgement of the next append is lost, it refuses that
// append from then on, because it looks for the entry before it in its log instead of
// in the snapshot; and the leader, going back entry by entry, comes to the snapshot
// again. Heartbeats look healthy all the while. It shows in Repeated, and ends with a
// newer snapshot of the leader.
type Progress struct {
	// Node is the other's id.
	Node string
	// Snapshots is how many it has installed since this node was started.
	Snapshots uint64
	// Repeated is how many of them since it last accepted an append, and Refused how
	// many appends it has refused since it last accepted one, or a snapshot. After a
	// snapshot the next append is normally accepted: so both above 0 look like the
	// livelock, and Repeated above 2 is it.
	Repeated, Refused uint64
	// Appends is how many appends it has accepted, apart from heartbeats and from
	// what went through raft's pipeline, which raft opens only after such an append
	// and closes at the first that is refused. Index is the highest entry among them.
	Appends, Index uint64
}

// Tracked is a transport that keeps account of what followers accept. It is itself a
// transport, so that raft can be given it. Safe for concurrent use.
type Tracked struct {
	Transport

	mu    sync.Mutex // guards peers
	peers map[raft.ServerID]*Progress
}

// Track watches a transport. The result may be used in its place.
func Track(t Transport) *Tracked {
	return &Tracked{Transport: t, peers: map[raft.ServerID]*Progress{}}
}

// Progress lists the nodes to which this one has sent entries or snapshots, by id.
func (t *Tracked) Progress() []Progress {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]Progress, 0, len(t.peers))
	for _, p := range t.peers {
		list = append(list, *p)
	}
	slices.SortFunc(list, func(a, b Progress) int { return strings.Compare(a.Node, b.Node) })
	return list
}

// AppendEntries implements raft.Transport.
func (t *Tracked) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	err := t.Transport.AppendEntries(id, target, args, resp)
	heartbeat := args.PrevLogEntry == 0 && len(args.Entries) == 0
	switch {
	case err != nil || heartbeat || resp.Term > args.Term:
		return err
	case !resp.Success:
		t.note(id, func(p *Progress) { p.Refused++ })
		return nil
	}
	last := args.PrevLogEntry
	if n := len(args.Entries); n > 0 {
		last = args.Entries[n-1].Index
	}
	t.note(id, func(p *Progress) {
		p.Appends++
		p.Repeated, p.Refused = 0, 0
		p.Index = max(p.Index, last)
	})
	return nil
}

// InstallSnapshot implements raft.Transport.
func (t *Tracked) InstallSnapshot(id raft.ServerID, target raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	err := t.Transport.InstallSnapshot(id, target, args, resp, data)
	if err == nil && resp.Success {
		t.note(id, func(p *Progress) {
			p.Snapshots++
			p.Repeated++
			p.Refused = 0
		})
	}
	return err
}

// Close implements raft.WithClose: it closes the transport beneath, if that can be
// closed.
func (t *Tracked) Close() error {
	if c, ok := t.Transport.(raft.WithClose); ok {
		return c.Close()
	}
	return nil
}

func (t *Tracked) note(id raft.ServerID, change func(*Progress)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.peers[id]
	if p == nil {
		p = &Progress{Node: string(id)}
		t.peers[id] = p
	}
	change(p)
}
