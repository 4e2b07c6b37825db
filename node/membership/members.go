package membership

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// isUnconfigured reports whether raft knows no servers: nothing was ever written to this log.
func (c *Cluster) isUnconfigured() bool { return len(c.Servers()) == 0 }

// Servers is raft's configuration as this node knows it.
func (c *Cluster) Servers() []raft.Server {
	f := c.raft.GetConfiguration()
	if f.Error() != nil {
		return nil
	}
	return f.Configuration().Servers
}

// configuredAddress is a node's address in raft's configuration; empty when it has none.
func (c *Cluster) configuredAddress(id string) string {
	for _, s := range c.Servers() {
		if string(s.ID) == id {
			return string(s.Address)
		}
	}
	return ""
}

// Record is what the log knows about a node.
func (c *Cluster) Record(id string) (found machine.Member) {
	c.conf.View(func(m *machine.Machine) {
		for _, k := range m.Members() {
			if k.Node == id {
				found = k
			}
		}
	})
	return found
}

// Members lists the nodes of the cluster by name, as this node knows them.
func (c *Cluster) Members() []admin.Member {
	_, leader := c.raft.LeaderWithID()
	out := []admin.Member{}
	for _, s := range c.Servers() {
		k := c.Record(string(s.ID))
		m := admin.Member{
			ID: string(s.ID), Name: k.Name, RaftAddr: string(s.Address), API: k.API, Version: k.Version,
			Voter: s.Suffrage == raft.Voter, Leader: s.ID == leader, Self: s.ID == c.id, LastContact: -1, LogLag: -1,
		}
		if c.conf.SingleNode {
			m.RaftAddr = ""
		}
		c.autopilot.describe(&m, c.raft.CommitIndex())
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b admin.Member) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID))
	})
	return out
}

// findMember finds a node by its id, its name, or the beginning of its id.
func (c *Cluster) findMember(op, node string) (admin.Member, error) {
	var found []admin.Member
	for _, m := range c.Members() {
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
func (c *Cluster) requireCluster(op string) error {
	if c.conf.SingleNode {
		return &txn.Error{Op: op, Err: txn.ErrInvalid, Detail: "this coordinator is alone: it was started without an address for other nodes (raft_listen)"}
	}
	return nil
}

// Voters is how many nodes vote, as this node knows.
func (c *Cluster) Voters() (count int) {
	for _, s := range c.Servers() {
		if s.Suffrage == raft.Voter {
			count++
		}
	}
	return count
}

// isRemoved reports whether a node was removed from the cluster: its id is never admitted again.
func (c *Cluster) isRemoved(id string) (gone bool) {
	c.conf.View(func(m *machine.Machine) { gone = m.Removed(id) })
	return gone
}
