package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/node/audit"
	"github.com/txmgr/txmgr/node/peer"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// configChangeTimeout bounds one change of raft's configuration.
const configChangeTimeout = 10 * time.Second

// memberRecord is what the log knows about a node.
func (n *Node) memberRecord(id string) (found machine.Member) {
	n.fsm.View(func(m *machine.Machine) {
		for _, k := range m.Members() {
			if k.Node == id {
				found = k
			}
		}
	})
	return found
}

// Members lists the nodes of the cluster by name, as this node knows them.
func (n *Node) Members() []admin.Member {
	_, leader := n.raft.LeaderWithID()
	out := []admin.Member{}
	for _, s := range n.servers() {
		k := n.memberRecord(string(s.ID))
		m := admin.Member{
			ID: string(s.ID), Name: k.Name, RaftAddr: string(s.Address), API: k.API, Version: k.Version,
			Voter: s.Suffrage == raft.Voter, Leader: s.ID == leader, Self: s.ID == n.env.ID, LastContact: -1, LogLag: -1,
		}
		if n.env.SingleNode {
			m.RaftAddr = ""
		}
		n.autopilot.describe(&m, n.raft.CommitIndex())
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b admin.Member) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID))
	})
	return out
}

// findMember finds a node by its id, its name, or the beginning of its id.
func (n *Node) findMember(op, node string) (admin.Member, error) {
	members := n.Members()
	var found []admin.Member
	for _, m := range members {
		switch {
		case m.ID == node:
			return m, nil
		case m.Name == node, len(node) >= 4 && strings.HasPrefix(m.ID, node):
			found = append(found, m)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return admin.Member{}, &txn.Error{Op: op, Err: txn.ErrInvalid, Detail: fmt.Sprintf("%q is more than one node: give its id", node)}
	}
	return admin.Member{}, &txn.Error{Op: op, Err: txn.ErrNotFound, Detail: fmt.Sprintf("the cluster has no node %q", node)}
}

// requireCluster rejects an operation that needs several nodes on a single node.
func (n *Node) requireCluster(op string) error {
	if n.env.SingleNode {
		return &txn.Error{Op: op, Err: txn.ErrInvalid, Detail: "this coordinator is alone: it was started without an address for other nodes (--raft-listen)"}
	}
	return nil
}

// Join adds the node that listens for other nodes at the address: first as a learner, and as a
// voter once it has caught up. A node that is a member already remains one.
func (n *Node) Join(ctx context.Context, address, _ string) (admin.Member, error) {
	const op = "cluster join"
	if err := n.requireCluster(op); err != nil {
		return admin.Member{}, err
	}
	if err := n.requireLeader(); err != nil {
		return admin.Member{}, txn.Wrap(op, txn.ID{}, err)
	}
	if n.peerServer == nil {
		return admin.Member{}, errNoPeerServer(op)
	}
	who, err := n.peerServer.Hello(ctx, address)
	if err != nil {
		return admin.Member{}, txn.Wrap(op, txn.ID{}, fmt.Errorf("%w: asking who is at %s: %w", txn.ErrUnavailable, address, err))
	}
	if err := n.addLearner(ctx, who); err != nil {
		return admin.Member{}, txn.Wrap(op, txn.ID{}, err)
	}
	return n.findMember(op, who.ID)
}

// Remove removes a node from the cluster for ever: its id is rejected from then on. A leader
// that is to be removed transfers the leadership first, and returns [txn.ErrUnavailable].
func (n *Node) Remove(ctx context.Context, node, by, reason string) error {
	const op = "cluster remove"
	if err := n.requireCluster(op); err != nil {
		return err
	}
	if len(reason) > txn.MaxReason {
		return tooLongError(op, txn.ID{}, "reason", len(reason))
	}
	if err := n.requireLeader(); err != nil {
		return txn.Wrap(op, txn.ID{}, err)
	}
	n.membershipMu.Lock() // one change at a time
	defer n.membershipMu.Unlock()
	m, err := n.findMember(op, node)
	if err != nil {
		return err
	}
	if m.Voter && n.countVoters() == 1 {
		return &txn.Error{Op: op, Err: txn.ErrInvalid, Detail: "it is the last voter: without it there is no cluster"}
	}
	s := raft.Server{ID: raft.ServerID(m.ID)}
	if m.Voter {
		s.Suffrage = raft.Voter
	} else {
		s.Suffrage = raft.Nonvoter
	}
	if m.Self {
		if err := n.checkQuorumWithout(ctx, s.ID); err != nil {
			return txn.Wrap(op, txn.ID{}, err)
		}
		if err := n.TransferLeader(ctx, ""); err != nil {
			return err
		}
		return &txn.Error{Op: op, Err: txn.ErrUnavailable, Detail: "the node to be removed led, and has handed over: ask again"}
	}
	if err := n.removeServer(ctx, s, audit.Operator(by), reason); err != nil {
		return txn.Wrap(op, txn.ID{}, err)
	}
	return nil
}

// errNoPeerServer is the error of a node in the simulation, which cannot send requests to others.
func errNoPeerServer(op string) error {
	return &txn.Error{Op: op, Err: txn.ErrUnavailable, Detail: "this node has no port for other nodes"}
}

func (n *Node) countVoters() (count int) {
	for _, s := range n.servers() {
		if s.Suffrage == raft.Voter {
			count++
		}
	}
	return count
}

// configChangeUnknown wraps the error of a change of raft's configuration: the change may have
// been made all the same.
func configChangeUnknown(err error) error {
	return fmt.Errorf("%w: %w; txmgr cluster status tells", txn.ErrUnavailable, err)
}

// Leave removes this node from the cluster for ever. The process keeps running, and can be
// stopped.
func (n *Node) Leave(ctx context.Context, _ string) error {
	const op = "cluster leave"
	if err := n.requireCluster(op); err != nil {
		return err
	}
	if n.peerServer == nil {
		return errNoPeerServer(op)
	}
	if n.isLeader() {
		if n.countVoters() == 1 {
			return &txn.Error{Op: op, Err: txn.ErrInvalid, Detail: "it is the last voter: just stop it"}
		}
		if err := n.checkQuorumWithout(ctx, n.env.ID); err != nil {
			return txn.Wrap(op, txn.ID{}, err)
		}
		if err := n.TransferLeader(ctx, ""); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, configChangeTimeout)
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	last := fmt.Errorf("%w: no leader is known that could let it go", txn.ErrUnavailable)
	for {
		gone, err := n.requestLeave(ctx)
		if gone {
			n.removedFromCluster.Store(true)
			return nil
		}
		if err != nil {
			last = err
		}
		if err != nil && !errors.Is(err, txn.ErrUnavailable) {
			return txn.Wrap(op, txn.ID{}, err)
		}
		select {
		case <-ticker.C:
		case <-n.closing:
			return txn.Wrap(op, txn.ID{}, errStopping)
		case <-ctx.Done():
			return txn.Wrap(op, txn.ID{}, last)
		}
	}
}

// requestLeave asks the leader once, if one is known. If the answer to an earlier request was
// lost, the leader rejects this node altogether, which confirms the removal.
func (n *Node) requestLeave(ctx context.Context) (gone bool, err error) {
	address, id := n.raft.LeaderWithID()
	if address == "" || id == n.env.ID {
		return false, nil
	}
	_, err = n.peerServer.Leave(ctx, string(address))
	return err == nil || errors.Is(err, peer.ErrRemoved), err
}

// isRemoved reports whether a node was removed from the cluster: its id is never admitted again.
func (n *Node) isRemoved(id string) (gone bool) {
	n.fsm.View(func(m *machine.Machine) { gone = m.Removed(id) })
	return gone
}
