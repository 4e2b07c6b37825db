package membership

import (
	"cmp"
	"context"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/node/peer"
	"github.com/txmgr/txmgr/txn"
)

// Listen opens the port for other nodes, at the address and with the TLS of conf, and returns
// raft's transport through it. Until Start is called, other nodes learn that this one is starting.
func (c *Cluster) Listen(conf peer.Config) (raft.Transport, error) {
	if err := c.loadNotes(); err != nil {
		return nil, err
	}
	conf.Self, conf.Admit, conf.AdmitRaft = c.peerIdentity, c.admitPeer, c.admitRaft
	conf.Address, conf.Handler, conf.Logger = c.addressOverrides.address, peerHandler{c}, c.conf.Logger
	server, err := peer.Open(conf)
	if err != nil {
		return nil, err
	}
	c.peerServer = server
	return server.Transport(), nil
}

// peerIdentity is the identity that this node reports to others, also while it is starting.
func (c *Cluster) peerIdentity() peer.Identity {
	if !c.running.Load() {
		return peer.Identity{ID: string(c.id)}
	}
	return c.identity()
}

// identity is the identity that this node reports once it runs.
func (c *Cluster) identity() peer.Identity {
	id := c.conf.Self
	id.RaftAddr, id.Removed = c.peerServer.Addr(), c.removed.Load()
	leader, leaderID := c.raft.LeaderWithID()
	id.Leader, id.IsLeader = string(leader), leaderID == c.id
	id.Empty, id.Applied = c.isUnconfigured(), c.raft.AppliedIndex()
	a := c.clusterIdentity()
	id.Cluster, id.Incarnation = a.Cluster, a.Incarnation
	if f := c.consentedPlan.Load(); f != nil {
		id.Bootstrapper = f.Bootstrapper
	}
	return id
}

// peerHandler serves the requests of other nodes.
type peerHandler struct{ cluster *Cluster }

// Join implements [peer.Handler].
func (h peerHandler) Join(ctx context.Context, who peer.Identity) error {
	if err := h.cluster.requireLeaderForPeer(); err != nil {
		return err
	}
	return h.cluster.addLearner(ctx, who)
}

// Leave implements [peer.Handler].
func (h peerHandler) Leave(ctx context.Context, who peer.Identity, by, reason string) error {
	if err := h.cluster.requireLeaderForPeer(); err != nil {
		return err
	}
	return h.cluster.Remove(ctx, who.ID, cmp.Or(by, "node "+who.ID), cmp.Or(reason, "it left"))
}

// ConsentToBootstrap implements [peer.Handler].
func (h peerHandler) ConsentToBootstrap(_ context.Context, who peer.Identity, members []peer.Member) error {
	if !h.cluster.running.Load() {
		return errStarting
	}
	return h.cluster.grantConsent(&bootstrapPlan{Bootstrapper: who.ID, Members: members})
}

var errStarting = fmt.Errorf("%w: this node is just being started", txn.ErrUnavailable)

// requireLeaderForPeer returns why this node does not lead, for other nodes: the error names the
// leader to ask instead.
func (c *Cluster) requireLeaderForPeer() error {
	if !c.running.Load() {
		return errStarting
	}
	if !c.conf.Node.IsLeader() {
		leader, _ := c.raft.LeaderWithID()
		return &peer.NotLeaderError{Leader: string(leader)}
	}
	return nil
}
