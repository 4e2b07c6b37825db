package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/node/peer"
	"github.com/txmgr/txmgr/raftfsm/logstore"
	"github.com/txmgr/txmgr/txn/machine"
)

// clusterIdentity is the cluster that a node belongs to.
type clusterIdentity struct {
	Cluster     string `json:"cluster"`
	Incarnation uint64 `json:"incarnation"`
}

// clusterIdentityKey is where a node notes its allegiance: it knows that before it has applied
// the log, after a restart, and before it has one, when it has asked to be taken in.
var clusterIdentityKey = []byte("txmgr/cluster")

const (
	// membershipInterval is how often a node looks after its own membership.
	membershipInterval = time.Second
	// leaderlessPolls is after how many looks without a leader a node asks the others why.
	leaderlessPolls = 3
)

// clusterIdentity is zero as long as no cluster is known.
func (n *Node) clusterIdentity() (a clusterIdentity) {
	n.fsm.View(func(m *machine.Machine) {
		boot, _ := m.Bootstrap()
		a = clusterIdentity{boot.Cluster, m.Incarnation()}
	})
	if known := n.savedIdentity.Load(); a.Cluster == "" && known != nil {
		return *known
	}
	return a
}

// runMembershipLoop looks after this node's own membership: it notes the cluster it belongs to,
// tells the others when its address is another than they know, and finds out when it
// was removed.
func (n *Node) runMembershipLoop() {
	ticker := time.NewTicker(membershipInterval)
	defer ticker.Stop()
	for leaderless := 0; ; leaderless++ {
		select {
		case <-ticker.C:
		case <-n.closing:
			return
		}
		n.saveClusterIdentity()
		n.peerServer.Reauthorize() // connections of those that were removed meanwhile
		leader, id := n.raft.LeaderWithID()
		if id != "" {
			leaderless = 0
		}
		switch {
		case n.isUnconfigured():
		case leaderless >= leaderlessPolls:
			leaderless = 0
			n.probePeers()
		case id != "" && id != n.env.id && n.addressChanged():
			n.probePeer(n.baseCtx, string(leader))
		}
	}
}

// loadNotes reads what was noted.
func (n *Node) loadNotes(log raft.StableStore) error {
	var a clusterIdentity
	if found, err := loadNote(log, clusterIdentityKey, &a); err != nil {
		return err
	} else if found && a.Cluster != "" {
		n.savedIdentity.Store(&a)
	}
	var f bootstrapPlan
	if found, err := loadNote(log, bootstrapPlanKey, &f); err != nil {
		return err
	} else if found {
		n.consentedPlan.Store(&f)
	}
	return nil
}

// loadNote reads a note of this node's; false when there is none.
func loadNote(log raft.StableStore, key []byte, into any) (bool, error) {
	b, err := log.Get(key)
	switch {
	case errors.Is(err, logstore.ErrKeyNotFound) || err == nil && len(b) == 0:
		return false, nil
	case err == nil:
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		return false, fmt.Errorf("%w: the note %s: %w", ErrDamaged, key, err)
	}
	return true, nil
}

func (n *Node) saveNote(key []byte, note any) error {
	b, err := json.Marshal(note)
	if err != nil {
		return err
	}
	return n.env.log.Set(key, b)
}

func (n *Node) saveClusterIdentity() {
	a, known := n.clusterIdentity(), n.savedIdentity.Load()
	if a.Cluster == "" || known != nil && *known == a {
		return
	}
	n.membershipMu.Lock()
	defer n.membershipMu.Unlock()
	if err := n.adoptCluster(a); err != nil {
		n.logger.Warn("cannot note the cluster that this node belongs to", "error", err)
	}
}

// adoptCluster notes the cluster. What the log has applied is the last word; before, the first
// one is. The caller holds founding.
func (n *Node) adoptCluster(a clusterIdentity) error {
	known := n.savedIdentity.Load()
	if known != nil && *known == a {
		return nil
	}
	if own := n.clusterIdentity(); own.Cluster != "" && own != a {
		return fmt.Errorf("%w: node %s has asked cluster %s to take it in, and this is %s: empty its data directory, nothing is in it yet", peer.ErrClusterMismatch, n.env.id, own.Cluster, a.Cluster)
	}
	if err := n.saveNote(clusterIdentityKey, a); err != nil {
		return err
	}
	n.savedIdentity.Store(&a)
	return nil
}

// probePeers asks the others why this node hears of no leader: because it was removed, or
// because they look for it elsewhere, or it for them. Where they were started with other
// addresses, the addresses that this node was started with may know.
func (n *Node) probePeers() {
	ctx, cancel := context.WithTimeout(n.baseCtx, 2*peerCallTimeout)
	defer cancel()
	asked := map[string]bool{n.peerServer.Addr(): true}
	ask := func(address string) {
		if !asked[address] {
			asked[address] = true
			n.probePeer(ctx, address)
		}
	}
	for _, s := range n.servers() {
		ask(string(s.Address))
	}
	for _, address := range n.conf.Cluster.Join {
		ask(address)
	}
}

// probePeer asks a node who it is, for its address, and tells it this node's, if that is news.
func (n *Node) probePeer(ctx context.Context, address string) {
	ctx, cancel := context.WithTimeout(ctx, peerCallTimeout)
	defer cancel()
	who, err := n.peerServer.Hello(ctx, address)
	if err == nil {
		n.addressOverrides.record(who.ID, n.configuredAddress(who.ID), who.RaftAddr)
		if n.addressChanged() {
			_, err = n.peerServer.Join(ctx, address)
		}
	}
	if errors.Is(err, peer.ErrRemoved) {
		n.removedFromCluster.Store(true)
		n.setBootstrapStatus("nothing: this node was removed from its cluster, and its id is never used again. To add it as a new node, stop it, empty its data directory, and start it")
	}
}

// addressChanged reports whether the others look for this node at another address.
func (n *Node) addressChanged() bool {
	at := n.configuredAddress(string(n.env.id))
	return at != "" && at != n.peerServer.Addr()
}

// configuredAddress is the address that raft's configuration has for a node; empty when it has
// none.
func (n *Node) configuredAddress(id string) string {
	for _, s := range n.servers() {
		if string(s.ID) == id {
			return string(s.Address)
		}
	}
	return ""
}
