package node

import (
	"fmt"

	"github.com/txmgr/txmgr/txn"
)

// logFailure returns the failure of the log; nil while there was none. The call had no effect,
// and another node may serve.
func (n *Node) logFailure() error {
	if p := n.failed.Load(); p != nil {
		return fmt.Errorf("%w: the log has failed: %w", txn.ErrUnavailable, *p)
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
	return n.leading.Load() && n.term.Load() == n.raft.CurrentTerm()
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
