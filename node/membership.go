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

	"github.com/txmgr/txmgr/node/peer"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// changeTimeout bounds one change of raft's configuration.
const changeTimeout = 10 * time.Second

// member is what the log knows of a node.
func (n *Node) member(id string) (found machine.Member) {
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
func (n *Node) Members() []txn.Member {
	_, leader := n.raft.LeaderWithID()
	out := []txn.Member{}
	for _, s := range n.servers() {
		k := n.member(string(s.ID))
		m := txn.Member{
			ID: string(s.ID), Name: k.Name, Raft: string(s.Address), API: k.API, Version: k.Version,
			Voter: s.Suffrage == raft.Voter, Leader: s.ID == leader, Self: s.ID == n.storage.id, Heard: -1, Behind: -1,
		}
		if n.storage.alone {
			m.Raft = ""
		}
		n.steward.describe(&m, n.raft.CommitIndex())
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b txn.Member) int { return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID)) })
	return out
}

// find looks a node up by its id, its name, or the beginning of its id.
func (n *Node) find(op, node string) (txn.Member, error) {
	members := n.Members()
	var found []txn.Member
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
		return txn.Member{}, &txn.Error{Op: op, Err: txn.ErrInvalid, Detail: fmt.Sprintf("%q is more than one node: give its id", node)}
	}
	return txn.Member{}, &txn.Error{Op: op, Err: txn.ErrNotFound, Detail: fmt.Sprintf("the cluster has no node %q", node)}
}

// grouped refuses what needs several nodes.
func (n *Node) grouped(op string) error {
	if n.storage.alone {
		return &txn.Error{Op: op, Err: txn.ErrInvalid, Detail: "this coordinator is alone: it was started without an address for other nodes (--raft-listen)"}
	}
	return nil
}

// Join adds the node that listens for others at the address: at first as a learner,
// and as a voter when it has caught up. A node that is a member already stays one.
func (n *Node) Join(ctx context.Context, address, _ string) (txn.Member, error) {
	const op = "cluster join"
	if err := n.grouped(op); err != nil {
		return txn.Member{}, err
	}
	if err := n.serves(); err != nil {
		return txn.Member{}, txn.Wrap(op, txn.ID{}, err)
	}
	if n.port == nil {
		return txn.Member{}, errNoPort(op)
	}
	who, err := n.port.Hello(ctx, address)
	if err != nil {
		return txn.Member{}, txn.Wrap(op, txn.ID{}, fmt.Errorf("%w: asking who is at %s: %w", txn.ErrUnavailable, address, err))
	}
	if err := n.accept(ctx, who); err != nil {
		return txn.Member{}, txn.Wrap(op, txn.ID{}, err)
	}
	return n.find(op, who.ID)
}

// Remove takes a node out of the cluster, for ever: its id is refused from then on.
// The leader hands over first when it is the one.
func (n *Node) Remove(ctx context.Context, node, by, reason string) error {
	const op = "cluster remove"
	if err := n.grouped(op); err != nil {
		return err
	}
	if len(reason) > txn.MaxReason {
		return tooLong(op, txn.ID{}, "reason", len(reason))
	}
	if err := n.serves(); err != nil {
		return txn.Wrap(op, txn.ID{}, err)
	}
	n.founding.Lock() // one at a time
	defer n.founding.Unlock()
	m, err := n.find(op, node)
	if err != nil {
		return err
	}
	if m.Voter && n.voters() == 1 {
		return &txn.Error{Op: op, Err: txn.ErrInvalid, Detail: "it is the last voter: without it there is no cluster"}
	}
	s := raft.Server{ID: raft.ServerID(m.ID)}
	if m.Voter {
		s.Suffrage = raft.Voter
	} else {
		s.Suffrage = raft.Nonvoter
	}
	if m.Self {
		if err := n.spares(ctx, s.ID); err != nil {
			return txn.Wrap(op, txn.ID{}, err)
		}
		if err := n.TransferLeader(ctx, ""); err != nil {
			return err
		}
		return &txn.Error{Op: op, Err: txn.ErrUnavailable, Detail: "the node to be removed led, and has handed over: ask again"}
	}
	if err := n.expel(ctx, s, personOf(by), reason); err != nil {
		return txn.Wrap(op, txn.ID{}, err)
	}
	return nil
}

// errNoPort is the answer of a node of the simulation, which cannot ask others anything.
func errNoPort(op string) error {
	return &txn.Error{Op: op, Err: txn.ErrUnavailable, Detail: "this node has no port for other nodes"}
}

func (n *Node) voters() (count int) {
	for _, s := range n.servers() {
		if s.Suffrage == raft.Voter {
			count++
		}
	}
	return count
}

// unsettled says what a failed change of raft's configuration means: it may have been
// made all the same.
func unsettled(err error) error {
	return fmt.Errorf("%w: %w; txmgr cluster status tells", txn.ErrUnavailable, err)
}

// Leave takes this node out of the cluster, for ever. The process goes on, and can be
// ended.
func (n *Node) Leave(ctx context.Context, _ string) error {
	const op = "cluster leave"
	if err := n.grouped(op); err != nil {
		return err
	}
	if n.port == nil {
		return errNoPort(op)
	}
	if n.leads() {
		if n.voters() == 1 {
			return &txn.Error{Op: op, Err: txn.ErrInvalid, Detail: "it is the last voter: just stop it"}
		}
		if err := n.spares(ctx, n.storage.id); err != nil {
			return txn.Wrap(op, txn.ID{}, err)
		}
		if err := n.TransferLeader(ctx, ""); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	last := fmt.Errorf("%w: no leader is known that could let it go", txn.ErrUnavailable)
	for {
		gone, err := n.askToLeave(ctx)
		if gone {
			n.gone.Store(true)
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

// askToLeave asks the leader once, if one is known. A question whose answer got lost is
// answered the second time by the refusal to talk to this node at all.
func (n *Node) askToLeave(ctx context.Context) (gone bool, err error) {
	address, id := n.raft.LeaderWithID()
	if address == "" || id == n.storage.id {
		return false, nil
	}
	_, err = n.port.Leave(ctx, string(address))
	return err == nil || errors.Is(err, peer.ErrRemoved), err
}
