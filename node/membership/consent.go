package membership

import (
	"fmt"
	"slices"

	"github.com/txmgr/txmgr/node/peer"
	"github.com/txmgr/txmgr/txn"
)

// bootstrapPlanKey is the key under which a node saves the plan that it has consented to.
var bootstrapPlanKey = []byte("txmgr/founder")

// bootstrapPlan is the plan to bootstrap a cluster: the node that writes its first entry, and
// the members. A node that has consented to one plan consents to no other, and belongs to no
// other cluster, so that two clusters never have a node in common (docs/decisions/0014).
type bootstrapPlan struct {
	Bootstrapper string        `json:"founder"`
	Members      []peer.Member `json:"members"` // sorted by id
}

func (f *bootstrapPlan) includes(id string) bool {
	return slices.ContainsFunc(f.Members, func(m peer.Member) bool { return m.ID == id })
}

func (f *bootstrapPlan) equal(o *bootstrapPlan) bool {
	return f.Bootstrapper == o.Bootstrapper && slices.Equal(f.Members, o.Members)
}

// grantConsent saves, for ever, that this node consents to a plan. It refuses when the node has
// consented to another plan already, or belongs to a cluster.
func (c *Cluster) grantConsent(f *bootstrapPlan) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.isUnconfigured() {
		return fmt.Errorf("%w: this node belongs to a cluster already", txn.ErrConflict)
	}
	if a := c.clusterIdentity(); a.Cluster != "" {
		return fmt.Errorf("%w: this node has asked cluster %s to take it in, or was taken in there: empty its data directory to found another one with it", txn.ErrConflict, a.Cluster)
	}
	if !f.includes(string(c.id)) {
		return fmt.Errorf("%w: this node is not among those that bootstrap the cluster", txn.ErrConflict)
	}
	if old := c.consentedPlan.Load(); old != nil {
		if !old.equal(f) {
			return fmt.Errorf("%w: this node has consented to bootstrap a cluster with other nodes (%v): empty the data directories of all, nothing is in them yet", txn.ErrConflict, old.Members)
		}
		return nil
	}
	if err := c.saveNote(bootstrapPlanKey, f); err != nil {
		return err
	}
	c.consentedPlan.Store(f)
	return nil
}

// commitToCluster saves, before this node asks to join the cluster of another node, that it
// belongs to that cluster and to no other: the answer may be lost although the node was added.
func (c *Cluster) commitToCluster(to peer.Identity) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch f := c.consentedPlan.Load(); {
	case to.Cluster == "":
		return fmt.Errorf("%w: it has no leader yet", txn.ErrUnavailable)
	case c.checkPlan(to) != nil:
		return fmt.Errorf("%w: this node has consented to bootstrap a cluster with other nodes (%v): empty its data directory, nothing is in it yet", txn.ErrConflict, f.Members)
	default:
		return c.adoptCluster(clusterIdentity{to.Cluster, to.Incarnation})
	}
}

// checkPlan refuses nodes outside the plan that this node has consented to, until it knows its
// cluster: the bootstrapping node has a log before that, whose first entry raft would not
// distinguish from that of another cluster.
func (c *Cluster) checkPlan(who peer.Identity) error {
	if f := c.consentedPlan.Load(); f != nil && !f.includes(who.ID) && c.clusterIdentity().Cluster == "" {
		return fmt.Errorf("%w: node %s has consented to found one with others than node %s", peer.ErrClusterMismatch, c.id, who.ID)
	}
	return nil
}
