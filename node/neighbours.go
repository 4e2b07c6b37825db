package node

import (
	"context"
	"fmt"
	"os"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/node/peer"
	"github.com/txmgr/txmgr/txn"
)

// clusterGround is that of a node among others. It listens before raft runs, so that
// an address that is taken is said at once.
func (n *Node) clusterGround(s *storage) (*ground, error) {
	if err := n.recall(s.log); err != nil {
		return nil, err
	}
	c := n.conf.Cluster
	port, err := peer.Open(peer.Config{
		Listen: c.Listen, Advertise: c.Advertise, TLS: c.files(),
		Insecure: c.Insecure, Self: func() peer.Identity { return n.present(s.id) }, Admit: n.lets, Stream: n.follows,
		Address: n.moves.address, Handler: neighbours{n}, Logger: n.logger,
	})
	if err != nil {
		return nil, err
	}
	n.port = port
	return &ground{storage: s, transport: port.Transport()}, nil
}

// present is what this node says of itself, also while it is being started.
func (n *Node) present(id raft.ServerID) peer.Identity {
	if !n.running.Load() {
		return peer.Identity{ID: string(id)}
	}
	return n.identity()
}

// identity is what this node says of itself once it runs.
func (n *Node) identity() peer.Identity {
	c := n.conf.Cluster
	id := peer.Identity{
		ID: string(n.storage.id), Name: c.Name, Raft: n.port.Addr(), API: c.API, Version: Version(),
		Expect: c.Expect, Settings: n.settings(), Removed: n.gone.Load(),
	}
	leader, leaderID := n.raft.LeaderWithID()
	id.Leader, id.Leads = string(leader), leaderID == n.storage.id
	id.Fresh, id.Applied = n.belongsToNone(), n.raft.AppliedIndex()
	a := n.allegiance()
	id.Cluster, id.Incarnation = a.Cluster, a.Incarnation
	if f := n.promised.Load(); f != nil {
		id.Founder = f.Founder
	}
	return id
}

// settings is what a cluster would be founded on, for comparison.
func (n *Node) settings() string {
	return fmt.Sprintf("interval=%v retention=%v retain=%d", orElse(n.conf.Interval, DefaultInterval), orElse(n.conf.Retention, DefaultRetention), orElse(n.conf.Retain, 1_000_000))
}

// lets says whether a node may talk to this one.
func (n *Node) lets(who peer.Identity) error {
	if n.running.Load() && n.removed(who.ID) {
		return peer.ErrRemoved
	}
	return nil
}

// neighbours answers what other nodes ask for.
type neighbours struct{ node *Node }

// Join implements [peer.Handler].
func (h neighbours) Join(ctx context.Context, who peer.Identity) error {
	if err := h.node.decides(); err != nil {
		return err
	}
	return h.node.accept(ctx, who)
}

// Leave implements [peer.Handler].
func (h neighbours) Leave(ctx context.Context, who peer.Identity) error {
	if err := h.node.decides(); err != nil {
		return err
	}
	return h.node.Remove(ctx, who.ID, "node "+who.ID, "it left")
}

// Found implements [peer.Handler].
func (h neighbours) Found(_ context.Context, who peer.Identity, members []peer.Member) error {
	if !h.node.running.Load() {
		return errStarting
	}
	return h.node.consent(&founding{Founder: who.ID, Members: members})
}

var errStarting = fmt.Errorf("%w: this node is just being started", txn.ErrUnavailable)

// decides is [Node.leads] for other nodes, which are told whom to ask instead.
func (n *Node) decides() error {
	if !n.running.Load() {
		return errStarting
	}
	if !n.leads() {
		leader, _ := n.raft.LeaderWithID()
		return &peer.NotLeader{Leader: string(leader)}
	}
	return nil
}

// hostName is how a node is called that was given no name.
func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}
