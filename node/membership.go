package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/txmgr/txmgr/node/audit"
	"github.com/txmgr/txmgr/node/membership"
	"github.com/txmgr/txmgr/node/peer"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// openEnv opens the node's disk and its connection to the other nodes. It listens before raft
// runs, so that an address in use is reported at once.
func (n *Node) openEnv() (err error) {
	if n.env, err = n.openStorage(); err != nil {
		return err
	}
	conf := membership.Config{
		Self:       peer.Identity{ID: string(n.env.ID), Version: Version(), Settings: n.bootstrapSettings()},
		SingleNode: n.env.SingleNode, Log: n.env.Log, View: n.fsm.View, Node: membershipNode{n}, Context: n.life.ctx, Logger: n.conf.Logger,
	}
	if c := n.conf.Cluster; c != nil {
		conf.Self.Name, conf.Self.API, conf.Self.Expect, conf.Join = c.Name, c.API, c.Expect, c.Join
	}
	n.cluster = membership.New(conf)
	if n.env.Transport != nil {
		return nil // alone, or in the simulation
	}
	c := n.conf.Cluster
	n.env.Transport, err = n.cluster.Listen(peer.Config{Listen: c.Listen, Advertise: c.Advertise, TLS: c.tlsFiles(), Insecure: c.Insecure})
	if err != nil {
		return errors.Join(err, n.env.Log.Close())
	}
	return nil
}

// bootstrapSettings returns the settings that a new cluster would get from this node.
func (n *Node) bootstrapSettings() string {
	return fmt.Sprintf("interval=%v retention=%v retain=%d", cmp.Or(n.conf.Interval, DefaultInterval), cmp.Or(n.conf.Retention, DefaultRetention), cmp.Or(n.conf.Retain, 1_000_000))
}

// Join implements [admin.Cluster].
func (n adminCalls) Join(ctx context.Context, address, by, reason string) (admin.Member, error) {
	reason, err := audit.OptionalReason("cluster join", txn.ID{}, reason)
	if err != nil {
		return admin.Member{}, err
	}
	return n.cluster.Join(ctx, address, audit.Operator(by), reason)
}

// Remove implements [admin.Cluster].
func (n adminCalls) Remove(ctx context.Context, node, by, reason string) error {
	return n.cluster.Remove(ctx, node, audit.Operator(by), reason)
}

// Leave implements [admin.Cluster].
func (n adminCalls) Leave(ctx context.Context, by, reason string) error {
	reason, err := audit.OptionalReason("cluster leave", txn.ID{}, reason)
	if err != nil {
		return err
	}
	return n.cluster.Leave(ctx, audit.Operator(by), reason)
}

// TransferLeader implements [admin.Cluster].
func (n adminCalls) TransferLeader(ctx context.Context, node, by, reason string) error {
	reason, err := audit.OptionalReason("cluster transfer-leader", txn.ID{}, reason)
	if err != nil {
		return err
	}
	return n.cluster.TransferLeader(ctx, node, audit.Operator(by), reason)
}

// membershipNode implements [membership.Node].
type membershipNode struct{ node *Node }

// IsLeader implements [membership.Node].
func (m membershipNode) IsLeader() bool { return m.node.isLeader() }

// RequireLeader implements [membership.Node].
func (m membershipNode) RequireLeader() error { return m.node.requireLeader() }

// ProposeTick implements [membership.Node]. The state machine refuses the entry. Where entries do
// not arrive it would only be one more.
func (m membershipNode) ProposeTick(ctx context.Context) {
	if n := m.node; n.life.stalled.Load() == nil {
		_, _ = n.proposals.ProposeInTerm(ctx, n.terms.latest.Load(), machine.SetMember{}, nil)
	}
}

// Background implements [membership.Node].
func (m membershipNode) Background(f func()) bool { return m.node.life.background(f) }
