package node

import (
	"context"
	"fmt"

	"github.com/txmgr/txmgr/txn"
)

// logFailure returns the failure of the log; nil while there was none. The call had no effect,
// and another node may serve.
func (n *Node) logFailure() error {
	if err := n.life.failure(); err != nil {
		return fmt.Errorf("%w: the log has failed: %w", txn.ErrUnavailable, err)
	}
	return nil
}

// requireLeader returns why this node cannot decide; nil when it leads.
func (n *Node) requireLeader() error {
	if err := n.logFailure(); err != nil {
		return err
	}
	if err := n.stallError(); err != nil {
		return err
	}
	if !n.isLeader() {
		return n.notLeaderError()
	}
	return nil
}

// isLeader reports whether this node has taken over in raft's current term. The node may have
// lost the leadership, and won another term, before it has noticed either.
func (n *Node) isLeader() bool {
	return n.leading() && n.terms.latest.Load() == n.raft.CurrentTerm()
}

// notLeaderError is the error of a node that does not lead. It names the leader, if known.
func (n *Node) notLeaderError() error {
	_, id := n.raft.LeaderWithID()
	switch w := n.cluster.WaitsFor(); {
	case id == "" && w != "":
		return fmt.Errorf("%w: this node waits for %s", txn.ErrUnavailable, w)
	case id == "":
		return fmt.Errorf("%w: this node does not lead and knows no leader", txn.ErrUnavailable)
	case id == n.env.ID:
		return fmt.Errorf("%w: this node has just been elected and takes over", txn.ErrUnavailable)
	}
	m := n.cluster.Record(string(id))
	name := m.Name
	if name == "" {
		name = string(id)
	}
	if m.API == "" {
		return fmt.Errorf("%w: this node does not lead; %s does", txn.ErrUnavailable, name)
	}
	return fmt.Errorf("%w: this node does not lead; %s at %s does", txn.ErrUnavailable, name, m.API)
}

// Leader returns where calls are decided: here, or at the node whose server has the URL api. api
// is empty when no leader is known, or its URL is not known yet.
func (n *Node) Leader() (api string, here bool) {
	if n.isLeader() {
		return "", true
	}
	_, id := n.raft.LeaderWithID()
	if id == "" || id == n.env.ID {
		return "", false
	}
	return n.cluster.Record(string(id)).API, false
}

// Ready returns why calls cannot be answered, neither here nor by the leader; nil when they can.
// A follower that has just started knows the leader's id before its URL, which is in entries
// that it has not applied yet. In the simulation nodes do not report their URLs.
func (n *Node) Ready() error {
	if err := n.logFailure(); err != nil {
		return err
	}
	if err := n.stallError(); err != nil {
		return err
	}
	if n.isLeader() {
		return nil
	}
	if _, id := n.raft.LeaderWithID(); id != "" && id != n.env.ID && (n.conf.SimEnv != nil || n.cluster.Record(string(id)).Node != "") {
		return nil
	}
	return n.notLeaderError()
}

// requireReadable reports whether the state of this node may be read: because this node leads,
// which a quorum has confirmed after the call, or because the caller accepts an older state. In
// the former case everything that was acknowledged before the call has been applied here: by this
// leader, or by an earlier one, all of whose entries this one had applied before it began to lead.
func (n *Node) requireReadable(ctx context.Context) error {
	if txn.StaleAllowed(ctx) {
		return n.logFailure()
	}
	return n.confirmLeadership(ctx)
}

// confirmLeadership verifies that this node led at some moment after the call.
func (n *Node) confirmLeadership(ctx context.Context) error {
	if err := n.requireLeader(); err != nil || n.env.SingleNode {
		return err
	}
	if err := n.readIndex.Confirm(ctx); err != nil {
		return err
	}
	if n.cluster.Transferring() {
		// The transfer target asks for votes at once, also from nodes that have just
		// confirmed that this node leads.
		return fmt.Errorf("%w: leadership transfer in progress", txn.ErrUnavailable)
	}
	return n.requireLeader()
}
