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

// addLearner adds a node to the cluster as a learner, or records the new address of a member. A
// node that has lost its disk comes as a new node at an old address, and replaces the member
// that had the address.
func (n *Node) addLearner(ctx context.Context, who peer.Identity) error {
	n.membershipMu.Lock() // one change at a time
	defer n.membershipMu.Unlock()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", txn.ErrUnavailable, err)
	}
	if err := n.validateJoin(who); err != nil {
		return err
	}
	var at, known *raft.Server // another member at the node's address, and the node itself
	servers := n.servers()
	for _, s := range servers {
		switch {
		case string(s.ID) == who.ID:
			known = &s
		case string(s.Address) == who.RaftAddr:
			at = &s
		}
	}
	switch {
	case known == nil && !who.Empty:
		return fmt.Errorf("%w: node %s has a log, and is no member of this cluster: it was removed, or belongs to another; empty its data directory to add it as a new node", txn.ErrConflict, who.ID)
	case known == nil && who.Bootstrapper != "":
		return fmt.Errorf("%w: node %s has consented to bootstrap a cluster with others, led by node %s: empty its data directory to add it to another one", txn.ErrConflict, who.ID, who.Bootstrapper)
	case known == nil && at == nil && len(servers) >= maxNodes:
		return fmt.Errorf("%w: the cluster has %d nodes, the most that it may have: remove one first", txn.ErrConflict, len(servers))
	case known == nil || string(known.Address) != who.RaftAddr:
		if err := n.verifyAddress(ctx, who, known); err != nil {
			return err
		}
	}
	if at != nil {
		n.logger.Warn("a node with an empty disk takes the place of the one at its address", "old", at.ID, "new", who.ID, "address", who.RaftAddr)
		if err := n.removeServer(ctx, *at, "txmgr", "its address now belongs to "+who.ID+", which has an empty disk"); err != nil {
			return err
		}
	}
	if known != nil {
		if err := n.updateAddress(known.ID, who.RaftAddr); err != nil {
			return err
		}
		return n.upsertMember(ctx, who)
	}
	if err := n.raft.AddNonvoter(raft.ServerID(who.ID), raft.ServerAddress(who.RaftAddr), 0, configChangeTimeout).Error(); err != nil {
		return configChangeUnknown(err)
	}
	n.logger.Info("a node has joined as a learner", "node", who.ID, "name", who.Name, "address", who.RaftAddr)
	return n.upsertMember(ctx, who)
}

// validateJoin refuses nodes that cannot become members.
func (n *Node) validateJoin(who peer.Identity) error {
	me := n.identity()
	switch {
	case who.RaftAddr == "":
		return fmt.Errorf("%w: node %s does not say at which address it is reached", txn.ErrInvalid, who.ID)
	case n.isRemoved(who.ID):
		return fmt.Errorf("%w: node %s was removed from this cluster, and its id is never used again: empty its data directory to add it as a new node", txn.ErrDenied, who.ID)
	case who.Cluster != "" && (who.Cluster != me.Cluster || who.Incarnation != me.Incarnation):
		return fmt.Errorf("%w: node %s belongs to cluster %s, incarnation %d; this is %s, incarnation %d", txn.ErrConflict, who.ID, who.Cluster, who.Incarnation, me.Cluster, me.Incarnation)
	}
	return nil
}

// verifyAddress checks that a node is reached at the address that it reports, before it replaces
// the member that had the address, and that it no longer runs at its old address: there it
// would be a copy of its data directory.
func (n *Node) verifyAddress(ctx context.Context, who peer.Identity, known *raft.Server) error {
	ctx, cancel := context.WithTimeout(ctx, peerCallTimeout)
	defer cancel()
	there, err := n.peerServer.Hello(ctx, who.RaftAddr)
	switch {
	case err != nil:
		return fmt.Errorf("%w: node %s says that others reach it at %s, and this one does not: %w", txn.ErrUnavailable, who.ID, who.RaftAddr, err)
	case there.ID != who.ID:
		return fmt.Errorf("%w: node %s says that it is at %s, and node %s is there: does it advertise a wrong address?", txn.ErrConflict, who.ID, who.RaftAddr, there.ID)
	case known == nil:
		return nil
	}
	if duplicate, err := n.peerServer.Hello(ctx, string(known.Address)); err == nil && duplicate.ID == who.ID && duplicate.RaftAddr != who.RaftAddr {
		return fmt.Errorf("%w: node %s runs at %s and at %s: was a data directory copied? Only one of the two may run", txn.ErrConflict, who.ID, known.Address, who.RaftAddr)
	}
	return nil
}

// removeServer removes a node from raft's configuration and tombstones its id for ever. The
// caller holds membershipMu.
func (n *Node) removeServer(ctx context.Context, s raft.Server, by, reason string) error {
	if s.Suffrage == raft.Voter {
		if err := n.checkQuorumWithout(ctx, s.ID); err != nil {
			return err
		}
	}
	if err := n.raft.RemoveServer(s.ID, 0, configChangeTimeout).Error(); err != nil {
		return configChangeUnknown(err)
	}
	n.autopilot.drop(string(s.ID))
	return n.tombstoneID(ctx, string(s.ID), by, reason)
}

// tombstoneID records in the log that an id is never used again.
func (n *Node) tombstoneID(ctx context.Context, id, by, reason string) error {
	ctx, cancel := context.WithTimeout(ctx, configChangeTimeout)
	defer cancel()
	res, err := n.proposals.Propose(ctx, machine.RemoveMember{Node: id, By: by, Reason: reason})
	if err == nil && res.Code != machine.OK {
		err = res.ToError("cluster remove", txn.ID{})
	}
	return err
}

// checkQuorumWithout returns an error if the voters that are left without id have no quorum
// because too many of them do not answer. raft would make the change, and wait for them for ever
// (docs/decisions/0019).
func (n *Node) checkQuorumWithout(ctx context.Context, id raft.ServerID) error {
	if n.peerServer == nil {
		return nil // in the simulation, which has to check this itself
	}
	ctx, cancel := context.WithTimeout(ctx, peerCallTimeout)
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex
	voters, unreachable := 0, []string(nil) // unreachable: guarded by mu
	for _, s := range n.servers() {
		if s.Suffrage != raft.Voter || s.ID == id {
			continue
		}
		voters++
		if s.ID == n.env.id {
			continue
		}
		wg.Go(func() {
			if who, err := n.peerServer.Hello(ctx, string(s.Address)); err == nil && who.ID == string(s.ID) {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			unreachable = append(unreachable, orElse(n.memberRecord(string(s.ID)).Name, string(s.ID)))
		})
	}
	wg.Wait()
	if 2*(voters-len(unreachable)) > voters {
		return nil
	}
	slices.Sort(unreachable)
	return fmt.Errorf("%w: without node %s, %d of the %d voters that are left would not answer (%s), and nothing could be decided any more: bring them back, or remove them first", txn.ErrConflict, id, len(unreachable), voters, strings.Join(unreachable, ", "))
}
