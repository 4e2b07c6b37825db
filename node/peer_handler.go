package node

import (
	"context"
	"fmt"
	"os"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/node/peer"
	"github.com/txmgr/txmgr/node/raftguard"
	"github.com/txmgr/txmgr/node/storage"
	"github.com/txmgr/txmgr/txn"
)

// openClusterEnv is the environment of a node of a cluster. It listens before raft runs, so that
// an address in use is reported at once.
func (n *Node) openClusterEnv(s *storage.Storage) (*raftguard.Env, error) {
	if err := n.loadNotes(s.Log); err != nil {
		return nil, err
	}
	c := n.conf.Cluster
	server, err := peer.Open(peer.Config{
		Listen: c.Listen, Advertise: c.Advertise, TLS: c.tlsFiles(),
		Insecure: c.Insecure, Self: func() peer.Identity { return n.peerIdentity(s.ID) }, Admit: n.admitPeer, AdmitRaft: n.admitRaft,
		Address: n.addressOverrides.address, Handler: peerHandler{n}, Logger: n.logger,
	})
	if err != nil {
		return nil, err
	}
	n.peerServer = server
	return &raftguard.Env{Storage: s, Transport: server.Transport()}, nil
}

// peerIdentity is the identity that this node reports to others, also while it is starting.
func (n *Node) peerIdentity(id raft.ServerID) peer.Identity {
	if !n.running.Load() {
		return peer.Identity{ID: string(id)}
	}
	return n.identity()
}

// identity is the identity that this node reports once it runs.
func (n *Node) identity() peer.Identity {
	c := n.conf.Cluster
	id := peer.Identity{
		ID: string(n.env.ID), Name: c.Name, RaftAddr: n.peerServer.Addr(), API: c.API, Version: Version(),
		Expect: c.Expect, Settings: n.bootstrapSettings(), Removed: n.removedFromCluster.Load(),
	}
	leader, leaderID := n.raft.LeaderWithID()
	id.Leader, id.IsLeader = string(leader), leaderID == n.env.ID
	id.Empty, id.Applied = n.isUnconfigured(), n.raft.AppliedIndex()
	a := n.clusterIdentity()
	id.Cluster, id.Incarnation = a.Cluster, a.Incarnation
	if f := n.consentedPlan.Load(); f != nil {
		id.Bootstrapper = f.Bootstrapper
	}
	return id
}

// bootstrapSettings returns the settings that a new cluster would get from this node, for
// comparison.
func (n *Node) bootstrapSettings() string {
	return fmt.Sprintf("interval=%v retention=%v retain=%d", orElse(n.conf.Interval, DefaultInterval), orElse(n.conf.Retention, DefaultRetention), orElse(n.conf.Retain, 1_000_000))
}

// admitPeer reports whether a node may connect to this one.
func (n *Node) admitPeer(who peer.Identity) error {
	if n.running.Load() && n.isRemoved(who.ID) {
		return peer.ErrRemoved
	}
	return nil
}

// peerHandler serves the requests of other nodes.
type peerHandler struct{ node *Node }

// Join implements [peer.Handler].
func (h peerHandler) Join(ctx context.Context, who peer.Identity) error {
	if err := h.node.requireLeaderForPeer(); err != nil {
		return err
	}
	return h.node.addLearner(ctx, who)
}

// Leave implements [peer.Handler].
func (h peerHandler) Leave(ctx context.Context, who peer.Identity) error {
	if err := h.node.requireLeaderForPeer(); err != nil {
		return err
	}
	return h.node.Remove(ctx, who.ID, "node "+who.ID, "it left")
}

// ConsentToBootstrap implements [peer.Handler].
func (h peerHandler) ConsentToBootstrap(_ context.Context, who peer.Identity, members []peer.Member) error {
	if !h.node.running.Load() {
		return errStarting
	}
	return h.node.grantConsent(&bootstrapPlan{Bootstrapper: who.ID, Members: members})
}

var errStarting = fmt.Errorf("%w: this node is just being started", txn.ErrUnavailable)

// requireLeaderForPeer is [Node.isLeader] for other nodes: the error names the leader to ask
// instead.
func (n *Node) requireLeaderForPeer() error {
	if !n.running.Load() {
		return errStarting
	}
	if !n.isLeader() {
		leader, _ := n.raft.LeaderWithID()
		return &peer.NotLeaderError{Leader: string(leader)}
	}
	return nil
}

// hostName is the default name of a node.
func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}
