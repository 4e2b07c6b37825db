package membership

import (
	"context"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/node/peer"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// Join adds the node that listens for other nodes at the address: first as a learner, and as a
// voter once it has caught up. A node that is a member already remains one. The audit trail has who
// wanted that and the reason, if it has changed anything.
func (c *Cluster) Join(ctx context.Context, address, by, reason string) (admin.Member, error) {
	const op = "cluster join"
	if err := c.requireCluster(op); err != nil {
		return admin.Member{}, err
	}
	if err := c.conf.Node.RequireLeader(); err != nil {
		return admin.Member{}, txn.Wrap(op, txn.ID{}, err)
	}
	if c.peerServer == nil {
		return admin.Member{}, errNoPeerServer(op)
	}
	who, err := c.peerServer.Hello(ctx, address)
	if err != nil {
		return admin.Member{}, txn.Wrap(op, txn.ID{}, fmt.Errorf("%w: asking who is at %s: %w", txn.ErrUnavailable, address, err))
	}
	changed, err := c.changeToAdd(ctx, who)
	if changed {
		record := machine.RecordAction{Action: machine.ActionAddMember, Subject: who.ID, By: by, Reason: reason}
		if unrecorded := c.recordAction(ctx, record); err == nil {
			err = unrecorded
		}
	}
	if err != nil {
		return admin.Member{}, txn.Wrap(op, txn.ID{}, err)
	}
	return c.findMember(op, who.ID)
}

// recordAction writes an operator's action into the audit trail.
func (c *Cluster) recordAction(ctx context.Context, a machine.RecordAction) error {
	ctx, cancel := context.WithTimeout(ctx, configChangeTimeout)
	defer cancel()
	res, err := c.proposals.Propose(ctx, a)
	if err == nil && res.Code != machine.OK {
		err = res.ToError("audit", txn.ID{})
	}
	return err
}

// addLearner adds a node to the cluster as a learner, or records the new address of a member. A
// node that has lost its disk comes as a new node at an old address, and replaces the member
// that had the address.
func (c *Cluster) addLearner(ctx context.Context, who peer.Identity) error {
	_, err := c.changeToAdd(ctx, who)
	return err
}

// changeToAdd is addLearner, and reports whether raft's configuration has changed, which it may
// have done in spite of the error.
func (c *Cluster) changeToAdd(ctx context.Context, who peer.Identity) (changed bool, err error) {
	c.mu.Lock() // one change at a time
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return false, fmt.Errorf("%w: %w", txn.ErrUnavailable, err)
	}
	if err := c.validateJoin(who); err != nil {
		return false, err
	}
	var at, known *raft.Server // another member at the node's address, and the node itself
	servers := c.Servers()
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
		return false, fmt.Errorf("%w: node %s has a log, and is no member of this cluster: it was removed, or belongs to another; empty its data directory to add it as a new node", txn.ErrConflict, who.ID)
	case known == nil && who.Bootstrapper != "":
		return false, fmt.Errorf("%w: node %s has consented to bootstrap a cluster with others, led by node %s: empty its data directory to add it to another one", txn.ErrConflict, who.ID, who.Bootstrapper)
	case known == nil && at == nil && len(servers) >= MaxNodes:
		return false, fmt.Errorf("%w: the cluster has %d nodes, the most that it may have: remove one first", txn.ErrConflict, len(servers))
	case known == nil || string(known.Address) != who.RaftAddr:
		if err := c.verifyAddress(ctx, who, known); err != nil {
			return false, err
		}
	}
	if at != nil {
		c.conf.Logger.Warn("a node with an empty disk takes the place of the one at its address", "old", at.ID, "new", who.ID, "address", who.RaftAddr)
		if err := c.removeServer(ctx, *at, "txmgr", "its address now belongs to "+who.ID+", which has an empty disk"); err != nil {
			return false, err
		}
	}
	if known != nil {
		if err := c.updateAddress(known.ID, who.RaftAddr); err != nil {
			return false, err
		}
		return string(known.Address) != who.RaftAddr, c.upsertMember(ctx, who)
	}
	if err := c.raft.AddNonvoter(raft.ServerID(who.ID), raft.ServerAddress(who.RaftAddr), 0, configChangeTimeout).Error(); err != nil {
		return false, configChangeUnknown(err)
	}
	c.conf.Logger.Info("a node has joined as a learner", "node", who.ID, "name", who.Name, "address", who.RaftAddr)
	return true, c.upsertMember(ctx, who)
}

// validateJoin refuses nodes that cannot become members.
func (c *Cluster) validateJoin(who peer.Identity) error {
	me := c.identity()
	switch {
	case who.RaftAddr == "":
		return fmt.Errorf("%w: node %s does not say at which address it is reached", txn.ErrInvalid, who.ID)
	case c.isRemoved(who.ID):
		return fmt.Errorf("%w: node %s was removed from this cluster, and its id is never used again: empty its data directory to add it as a new node", txn.ErrDenied, who.ID)
	case who.Cluster != "" && (who.Cluster != me.Cluster || who.Incarnation != me.Incarnation):
		return fmt.Errorf("%w: node %s belongs to cluster %s, incarnation %d; this is %s, incarnation %d", txn.ErrConflict, who.ID, who.Cluster, who.Incarnation, me.Cluster, me.Incarnation)
	}
	return nil
}

// verifyAddress checks that a node is reached at the address that it reports, before it replaces
// the member that had the address, and that it no longer runs at its old address: there it
// would be a copy of its data directory.
func (c *Cluster) verifyAddress(ctx context.Context, who peer.Identity, known *raft.Server) error {
	ctx, cancel := context.WithTimeout(ctx, peerCallTimeout)
	defer cancel()
	there, err := c.peerServer.Hello(ctx, who.RaftAddr)
	switch {
	case err != nil:
		return fmt.Errorf("%w: node %s says that others reach it at %s, and this one does not: %w", txn.ErrUnavailable, who.ID, who.RaftAddr, err)
	case there.ID != who.ID:
		return fmt.Errorf("%w: node %s says that it is at %s, and node %s is there: does it advertise a wrong address?", txn.ErrConflict, who.ID, who.RaftAddr, there.ID)
	case known == nil:
		return nil
	}
	if duplicate, err := c.peerServer.Hello(ctx, string(known.Address)); err == nil && duplicate.ID == who.ID && duplicate.RaftAddr != who.RaftAddr {
		return fmt.Errorf("%w: node %s runs at %s and at %s: was a data directory copied? Only one of the two may run", txn.ErrConflict, who.ID, known.Address, who.RaftAddr)
	}
	return nil
}
