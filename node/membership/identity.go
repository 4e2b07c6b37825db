package membership

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/node/peer"
	"github.com/txmgr/txmgr/node/storage"
	"github.com/txmgr/txmgr/raftfsm/logstore"
	"github.com/txmgr/txmgr/txn/machine"
)

// clusterIdentity is the cluster that a node belongs to.
type clusterIdentity struct {
	Cluster     string `json:"cluster"`
	Incarnation uint64 `json:"incarnation"`
}

// clusterIdentityKey is the key under which a node saves its cluster identity, so that it knows
// the identity before it has applied the log after a restart, and before it has a log, when it
// has asked to join.
var clusterIdentityKey = []byte("txmgr/cluster")

// clusterIdentity is the identity from the log, or the saved one; zero while no cluster is
// known.
func (c *Cluster) clusterIdentity() (a clusterIdentity) {
	c.conf.View(func(m *machine.Machine) {
		boot, _ := m.Bootstrap()
		a = clusterIdentity{boot.Cluster, m.Incarnation()}
	})
	if known := c.savedIdentity.Load(); a.Cluster == "" && known != nil {
		return *known
	}
	return a
}

// loadNotes reads the saved cluster identity and bootstrap plan.
func (c *Cluster) loadNotes() error {
	var a clusterIdentity
	if found, err := loadNote(c.conf.Log, clusterIdentityKey, &a); err != nil {
		return err
	} else if found && a.Cluster != "" {
		c.savedIdentity.Store(&a)
	}
	var f bootstrapPlan
	if found, err := loadNote(c.conf.Log, bootstrapPlanKey, &f); err != nil {
		return err
	} else if found {
		c.consentedPlan.Store(&f)
	}
	return nil
}

// loadNote reads the value that this node saved under a key; false when there is none.
func loadNote(log raft.StableStore, key []byte, into any) (bool, error) {
	b, err := log.Get(key)
	switch {
	case errors.Is(err, logstore.ErrKeyNotFound) || err == nil && len(b) == 0:
		return false, nil
	case err == nil:
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		return false, fmt.Errorf("%w: the note %s: %w", storage.ErrDamaged, key, err)
	}
	return true, nil
}

func (c *Cluster) saveNote(key []byte, note any) error {
	b, err := json.Marshal(note)
	if err != nil {
		return err
	}
	return c.conf.Log.Set(key, b)
}

func (c *Cluster) saveClusterIdentity() {
	a, known := c.clusterIdentity(), c.savedIdentity.Load()
	if a.Cluster == "" || known != nil && *known == a {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.adoptCluster(a); err != nil {
		c.conf.Logger.Warn("cannot note the cluster that this node belongs to", "error", err)
	}
}

// adoptCluster saves the cluster identity. The identity in the applied log takes precedence;
// until there is one, the first identity that was saved stays. The caller holds mu.
func (c *Cluster) adoptCluster(a clusterIdentity) error {
	known := c.savedIdentity.Load()
	if known != nil && *known == a {
		return nil
	}
	if own := c.clusterIdentity(); own.Cluster != "" && own != a {
		return fmt.Errorf("%w: node %s has asked cluster %s to take it in, and this is %s: empty its data directory, nothing is in it yet", peer.ErrClusterMismatch, c.id, own.Cluster, a.Cluster)
	}
	if err := c.saveNote(clusterIdentityKey, a); err != nil {
		return err
	}
	c.savedIdentity.Store(&a)
	return nil
}
