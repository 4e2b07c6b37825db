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

// clusterIdentityKey is the key under which a node saves its cluster identity, so that it knows
// the identity before it has applied the log after a restart, and before it has a log, when it
// has asked to join.
var clusterIdentityKey = []byte("txmgr/cluster")

const (
	// membershipInterval is how often a node checks its own membership.
	membershipInterval = time.Second
	// leaderlessPolls is after how many checks without a leader a node asks the others why.
	leaderlessPolls = 3
)

// clusterIdentity is the identity from the log, or the saved one; zero while no cluster is
// known.
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

// runMembershipLoop maintains this node's own membership: it saves the cluster that the node
// belongs to, reports the node's address to the others when it differs from raft's
// configuration, and detects that the node was removed.
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
		n.peerServer.Reauthorize() // closes connections of nodes that were removed meanwhile
		leader, id := n.raft.LeaderWithID()
		if id != "" {
			leaderless = 0
		}
		switch {
		case n.isUnconfigured():
		case leaderless >= leaderlessPolls:
			leaderless = 0
			n.probePeers()
		case id != "" && id != n.env.ID && n.addressChanged():
			n.probePeer(n.baseCtx, string(leader))
		}
	}
}

// loadNotes reads the saved cluster identity and bootstrap plan.
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
		return false, fmt.Errorf("%w: the note %s: %w", ErrDamaged, key, err)
	}
	return true, nil
}

func (n *Node) saveNote(key []byte, note any) error {
	b, err := json.Marshal(note)
	if err != nil {
		return err
	}
	return n.env.Log.Set(key, b)
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

// adoptCluster saves the cluster identity. The identity in the applied log takes precedence;
// until there is one, the first identity that was saved stays. The caller holds membershipMu.
func (n *Node) adoptCluster(a clusterIdentity) error {
	known := n.savedIdentity.Load()
	if known != nil && *known == a {
		return nil
	}
	if own := n.clusterIdentity(); own.Cluster != "" && own != a {
		return fmt.Errorf("%w: node %s has asked cluster %s to take it in, and this is %s: empty its data directory, nothing is in it yet", peer.ErrClusterMismatch, n.env.ID, own.Cluster, a.Cluster)
	}
	if err := n.saveNote(clusterIdentityKey, a); err != nil {
		return err
	}
	n.savedIdentity.Store(&a)
	return nil
}

// probePeers asks the other nodes why this node has no leader: because it was removed, or
// because it and the others use outdated addresses of one another. When the others were started
// with other addresses, one of [Cluster].Join may reach them.
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

// probePeer asks the node at an address for its identity, to learn its address, and reports this
// node's address to it, if that has changed.
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

// addressChanged reports whether raft's configuration has another address for this node.
func (n *Node) addressChanged() bool {
	at := n.configuredAddress(string(n.env.ID))
	return at != "" && at != n.peerServer.Addr()
}

// configuredAddress is a node's address in raft's configuration; empty when it has none.
func (n *Node) configuredAddress(id string) string {
	for _, s := range n.servers() {
		if string(s.ID) == id {
			return string(s.Address)
		}
	}
	return ""
}
