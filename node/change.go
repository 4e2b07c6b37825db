package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/node/peer"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// accept takes a node into the cluster as a learner, or notes its new address. Who
// has lost its disk comes as a new node at an old address, and replaces the one that
// was there.
func (n *Node) accept(ctx context.Context, who peer.Identity) error {
	n.founding.Lock() // one at a time
	defer n.founding.Unlock()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", txn.ErrUnavailable, err)
	}
	if err := n.welcome(who); err != nil {
		return err
	}
	var at, known *raft.Server // at its address, and itself
	servers := n.servers()
	for _, s := range servers {
		switch {
		case string(s.ID) == who.ID:
			known = &s
		case string(s.Address) == who.Raft:
			at = &s
		}
	}
	switch {
	case known == nil && !who.Fresh:
		return fmt.Errorf("%w: node %s has a log, and is no member of this cluster: it was removed, or belongs to another; empty its data directory to add it as a new node", txn.ErrConflict, who.ID)
	case known == nil && who.Founder != "":
		return fmt.Errorf("%w: node %s has consented to found a cluster with others, led by node %s: empty its data directory to add it to another one", txn.ErrConflict, who.ID, who.Founder)
	case known == nil && at == nil && len(servers) >= maxNodes:
		return fmt.Errorf("%w: the cluster has %d nodes, the most that it may have: remove one first", txn.ErrConflict, len(servers))
	case known == nil || string(known.Address) != who.Raft:
		if err := n.meet(ctx, who, known); err != nil {
			return err
		}
	}
	if at != nil {
		n.logger.Warn("a node with an empty disk takes the place of the one at its address", "old", at.ID, "new", who.ID, "address", who.Raft)
		if err := n.expel(ctx, *at, "txmgr", "its address now belongs to "+who.ID+", which has an empty disk"); err != nil {
			return err
		}
	}
	if known != nil {
		if err := n.moveTo(known.ID, who.Raft); err != nil {
			return err
		}
		return n.introduce(ctx, who)
	}
	if err := n.raft.AddNonvoter(raft.ServerID(who.ID), raft.ServerAddress(who.Raft), 0, changeTimeout).Error(); err != nil {
		return unsettled(err)
	}
	n.logger.Info("a node has joined as a learner", "node", who.ID, "name", who.Name, "address", who.Raft)
	return n.introduce(ctx, who)
}

// welcome refuses nodes that cannot become members.
func (n *Node) welcome(who peer.Identity) error {
	me := n.identity()
	switch {
	case who.Raft == "":
		return fmt.Errorf("%w: node %s does not say at which address it is reached", txn.ErrInvalid, who.ID)
	case n.removed(who.ID):
		return fmt.Errorf("%w: node %s was removed from this cluster, and its id is never used again: empty its data directory to add it as a new node", txn.ErrDenied, who.ID)
	case who.Cluster != "" && (who.Cluster != me.Cluster || who.Incarnation != me.Incarnation):
		return fmt.Errorf("%w: node %s belongs to cluster %s, incarnation %d; this is %s, incarnation %d", txn.ErrConflict, who.ID, who.Cluster, who.Incarnation, me.Cluster, me.Incarnation)
	}
	return nil
}

// meet makes sure that a node is at the address that it says is its own, before it gets the
// place of the one that was there, and not at its old one any more: a copy of its data
// directory would be.
func (n *Node) meet(ctx context.Context, who peer.Identity, known *raft.Server) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	there, err := n.port.Hello(ctx, who.Raft)
	switch {
	case err != nil:
		return fmt.Errorf("%w: node %s says that others reach it at %s, and this one does not: %w", txn.ErrUnavailable, who.ID, who.Raft, err)
	case there.ID != who.ID:
		return fmt.Errorf("%w: node %s says that it is at %s, and node %s is there: does it advertise a wrong address?", txn.ErrConflict, who.ID, who.Raft, there.ID)
	case known == nil:
		return nil
	}
	if twin, err := n.port.Hello(ctx, string(known.Address)); err == nil && twin.ID == who.ID && twin.Raft != who.Raft {
		return fmt.Errorf("%w: node %s runs at %s and at %s: was a data directory copied? Only one of the two may run", txn.ErrConflict, who.ID, known.Address, who.Raft)
	}
	return nil
}

// expel takes a node out of raft's configuration and strikes its id for ever. The caller
// holds founding.
func (n *Node) expel(ctx context.Context, s raft.Server, by, reason string) error {
	if s.Suffrage == raft.Voter {
		if err := n.spares(ctx, s.ID); err != nil {
			return err
		}
	}
	if err := n.raft.RemoveServer(s.ID, 0, changeTimeout).Error(); err != nil {
		return unsettled(err)
	}
	n.steward.drop(string(s.ID))
	return n.strike(ctx, string(s.ID), by, reason)
}

// strike notes in the log that an id is never used again.
func (n *Node) strike(ctx context.Context, id, by, reason string) error {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	res, err := n.batcher.propose(ctx, machine.RemoveMember{Node: id, By: by, Reason: reason})
	if err == nil && res.Code != machine.OK {
		err = res.Refusal("cluster remove", txn.ID{})
	}
	return err
}

// spares refuses to take a voter out when those that are left could not decide anything,
// because too many of them do not answer. raft would do it, and wait for them for ever.
func (n *Node) spares(ctx context.Context, id raft.ServerID) error {
	if n.port == nil {
		return nil // the simulation's business
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex
	voters, silent := 0, []string(nil) // silent: guarded by mu
	for _, s := range n.servers() {
		if s.Suffrage != raft.Voter || s.ID == id {
			continue
		}
		voters++
		if s.ID == n.storage.id {
			continue
		}
		wg.Go(func() {
			if who, err := n.port.Hello(ctx, string(s.Address)); err == nil && who.ID == string(s.ID) {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			silent = append(silent, orElse(n.member(string(s.ID)).Name, string(s.ID)))
		})
	}
	wg.Wait()
	if 2*(voters-len(silent)) > voters {
		return nil
	}
	slices.Sort(silent)
	return fmt.Errorf("%w: without node %s, %d of the %d voters that are left would not answer (%s), and nothing could be decided any more: bring them back, or remove them first", txn.ErrConflict, id, len(silent), voters, strings.Join(silent, ", "))
}
