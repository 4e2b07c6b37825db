package membership

import (
	"context"
	"slices"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/node/peer"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// upsertMember writes what a node reports about itself into the log, if it has changed.
func (c *Cluster) upsertMember(ctx context.Context, who peer.Identity) error {
	k := machine.Member{Node: who.ID, Name: who.Name, API: who.API, Version: who.Version}
	if c.Record(who.ID) == k {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, configChangeTimeout)
	defer cancel()
	res, err := c.proposals.Propose(ctx, machine.SetMember{Member: k})
	if err == nil && res.Code != machine.OK {
		err = res.ToError("cluster join", txn.ID{})
	}
	return err
}

// updateAddress changes a node's address in raft's configuration.
func (c *Cluster) updateAddress(id raft.ServerID, address string) error {
	for _, s := range c.Servers() {
		if s.ID != id || string(s.Address) == address {
			continue
		}
		f := c.raft.AddNonvoter
		if s.Suffrage == raft.Voter {
			f = c.raft.AddVoter
		}
		if err := f(id, raft.ServerAddress(address), 0, configChangeTimeout).Error(); err != nil {
			return configChangeUnknown(err)
		}
		c.conf.Logger.Info("a node has another address", "node", id, "address", address)
	}
	return nil
}

// reconcileMembers completes earlier changes that were interrupted between raft's configuration
// and the log: this node's own address, and ids that raft does not know any more and that are
// not recorded as removed yet.
func (c *Cluster) reconcileMembers(ctx context.Context) {
	if !c.mu.TryLock() {
		return // a change is in progress
	}
	defer c.mu.Unlock()
	if err := c.updateAddress(c.id, c.peerServer.Addr()); err != nil && ctx.Err() == nil {
		c.conf.Logger.Warn("failed to update this node's address", "error", err)
	}
	// The members first: each of them was in raft's configuration before.
	var members []machine.Member
	c.conf.View(func(m *machine.Machine) { members = m.Members() })
	servers := c.Servers()
	for _, k := range members {
		if len(servers) == 0 || k.Node == string(c.id) || slices.ContainsFunc(servers, func(s raft.Server) bool { return string(s.ID) == k.Node }) {
			continue
		}
		if err := c.recordRemoved(ctx, k.Node, "txmgr", "removed earlier; the record was missing"); err != nil && ctx.Err() == nil {
			c.conf.Logger.Warn("failed to record the removal of a node", "node", k.Node, "error", err)
		}
	}
}
