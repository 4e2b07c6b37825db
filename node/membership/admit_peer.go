package membership

import (
	"fmt"

	"github.com/txmgr/txmgr/node/peer"
	"github.com/txmgr/txmgr/txn"
)

// admitPeer refuses a node that was removed from the cluster: it may not connect to this one. A join
// with its id is refused by the leader, too (validateJoin). Until raft runs this node does not know who
// was removed; raft's messages and other nodes' requests are refused until then.
func (c *Cluster) admitPeer(who peer.Identity) error {
	if c.running.Load() && c.isRemoved(who.ID) {
		return peer.ErrRemoved
	}
	return nil
}

// admitRaft returns an error unless raft may receive messages of a node. A node with an empty
// log would accept the log of any sender. It is restricted to the nodes with which it has
// consented to bootstrap a cluster, or else to the first cluster that it has asked or that
// contacts it, for good.
func (c *Cluster) admitRaft(who peer.Identity) error {
	if !c.running.Load() {
		return errStarting
	}
	if err := c.admitPeer(who); err != nil {
		return err
	}
	if !c.isUnconfigured() {
		return c.checkPlan(who)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch err := c.checkPlan(who); {
	case err != nil:
		return err
	case who.Cluster != "":
		return c.adoptCluster(clusterIdentity{who.Cluster, who.Incarnation})
	case c.consentedPlan.Load() != nil || c.clusterIdentity().Cluster != "":
		return nil
	}
	return fmt.Errorf("%w: node %s does not know its cluster yet", txn.ErrUnavailable, who.ID)
}
