package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/node/peer"
	"github.com/txmgr/txmgr/txn"
)

const (
	// bootstrapInterval is how often a node that belongs to no cluster asks the other nodes.
	bootstrapInterval = 500 * time.Millisecond
	// peerCallTimeout bounds one request to another node.
	peerCallTimeout = 2 * time.Second
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

// joinOrBootstrap makes a node with an empty log a member of a cluster: of an existing one, or
// of a new one that it bootstraps together with the other nodes that were expected. It ends
// when the node is a member, or closes.
func (n *Node) joinOrBootstrap() {
	c := n.conf.Cluster
	ticker := time.NewTicker(bootstrapInterval)
	defer ticker.Stop()
	for n.isUnconfigured() {
		if waiting := n.joinOrBootstrapOnce(c); waiting != "" {
			n.setBootstrapStatus(waiting)
		}
		select {
		case <-ticker.C:
		case <-n.closing:
			return
		}
	}
	n.setBootstrapStatus("")
}

// isUnconfigured reports whether raft knows no servers: nothing was ever written to this log.
func (n *Node) isUnconfigured() bool { return len(n.servers()) == 0 }

// servers is raft's configuration as this node knows it.
func (n *Node) servers() []raft.Server {
	f := n.raft.GetConfiguration()
	if f.Error() != nil {
		return nil
	}
	return f.Configuration().Servers
}

// setBootstrapStatus records what the node waits for, and logs each change once.
func (n *Node) setBootstrapStatus(what string) {
	if old := n.bootstrapStatus.Swap(&what); what != "" && (old == nil || *old != what) {
		n.logger.Info("waiting", "for", what)
	}
}

// joinOrBootstrapOnce makes one attempt, and returns what the node waits for.
func (n *Node) joinOrBootstrapOnce(c *Cluster) string {
	ctx, cancel := context.WithTimeout(n.baseCtx, 2*peerCallTimeout)
	defer cancel()
	seen, unreachable := n.discoverPeers(ctx, c.Join)
	refused := ""
	for _, p := range seen {
		if p.Empty {
			continue
		}
		err := n.commitToCluster(p)
		if err == nil {
			_, err = n.peerServer.Join(ctx, p.RaftAddr)
		}
		if err == nil {
			return "the log of the cluster"
		}
		if refused == "" || !p.Removed {
			refused = fmt.Sprintf("the cluster of %s to take this node in: %v", p.RaftAddr, err)
		}
	}
	if refused != "" {
		return refused
	}
	switch {
	case c.Expect == 0 && len(c.Join) == 0:
		return "a cluster to take this node in: txmgr cluster join " + n.peerServer.Addr() + ", at a node of the cluster; a new cluster needs --bootstrap-expect"
	case c.Expect == 0:
		return fmt.Sprintf("a cluster at %s; no node there is part of one (a new cluster needs --bootstrap-expect)", strings.Join(c.Join, ", "))
	}
	return n.bootstrapWith(ctx, c.Expect, seen, unreachable)
}

// discoverPeers asks every address for the identity of the node there. It leaves this node out.
func (n *Node) discoverPeers(ctx context.Context, addresses []string) (seen []peer.Identity, unreachable []string) {
	ctx, cancel := context.WithTimeout(ctx, peerCallTimeout)
	defer cancel()
	found := make([]*peer.Identity, len(addresses))
	var wg sync.WaitGroup
	for i, a := range addresses {
		wg.Go(func() {
			if id, err := n.peerServer.Hello(ctx, a); err == nil {
				found[i] = &id
			}
		})
	}
	wg.Wait()
	known := map[string]bool{string(n.env.ID): true}
	for i, p := range found {
		switch {
		case p == nil, p.RaftAddr == "": // no node, or one that is just starting
			unreachable = append(unreachable, addresses[i])
		case !known[p.ID]:
			known[p.ID] = true
			seen = append(seen, *p)
		}
	}
	return seen, unreachable
}

// bootstrapWith bootstraps a cluster of the expected number of nodes, once all of them answer.
// The node with the smallest id asks the others for their consent and writes the first entry,
// which raft replicates to them.
func (n *Node) bootstrapWith(ctx context.Context, expect int, seen []peer.Identity, unreachable []string) string {
	me := n.identity()
	all := append([]peer.Identity{me}, seen...)
	for _, p := range seen {
		if p.Expect != expect {
			return fmt.Sprintf("agreement: this node expects %d nodes, and %s at %s expects %d", expect, p.Name, p.RaftAddr, p.Expect)
		}
		if p.Settings != me.Settings {
			return fmt.Sprintf("agreement: this node was given %s, and %s at %s was given %s", me.Settings, p.Name, p.RaftAddr, p.Settings)
		}
	}
	switch {
	case len(all) > expect:
		return fmt.Sprintf("fewer nodes: %d found, bootstrap_expect is %d; stop one or change the setting", len(all), expect)
	case len(all) < expect:
		return fmt.Sprintf("%d more of %d nodes; no answer from %s", expect-len(all), expect, orElse(strings.Join(unreachable, ", "), "any further address in --join"))
	}
	f := &bootstrapPlan{}
	for _, p := range all {
		f.Members = append(f.Members, peer.Member{ID: p.ID, RaftAddr: p.RaftAddr})
	}
	slices.SortFunc(f.Members, func(a, b peer.Member) int { return strings.Compare(a.ID, b.ID) })
	f.Bootstrapper = f.Members[0].ID
	if f.Bootstrapper != me.ID {
		return "the node with the smallest id, " + f.Bootstrapper + ", to bootstrap the cluster"
	}
	if err := n.grantConsent(f); err != nil {
		return err.Error()
	}
	for _, p := range seen {
		if err := n.peerServer.ConsentToBootstrap(ctx, p.RaftAddr, f.Members); err != nil {
			return fmt.Sprintf("the consent of %s at %s: %v", p.Name, p.RaftAddr, err)
		}
	}
	var servers []raft.Server
	for _, m := range f.Members {
		servers = append(servers, raft.Server{ID: raft.ServerID(m.ID), Address: raft.ServerAddress(m.RaftAddr)})
	}
	if err := n.raft.BootstrapCluster(raft.Configuration{Servers: servers}).Error(); err != nil {
		return "raft: " + err.Error()
	}
	n.logger.Info("bootstrapped a cluster", "nodes", len(f.Members))
	return ""
}

// grantConsent saves, for ever, that this node consents to a plan. It refuses when the node has
// consented to another plan already, or belongs to a cluster.
func (n *Node) grantConsent(f *bootstrapPlan) error {
	n.membershipMu.Lock()
	defer n.membershipMu.Unlock()
	if !n.isUnconfigured() {
		return fmt.Errorf("%w: this node belongs to a cluster already", txn.ErrConflict)
	}
	if a := n.clusterIdentity(); a.Cluster != "" {
		return fmt.Errorf("%w: this node has asked cluster %s to take it in, or was taken in there: empty its data directory to found another one with it", txn.ErrConflict, a.Cluster)
	}
	if !f.includes(string(n.env.ID)) {
		return fmt.Errorf("%w: this node is not among those that bootstrap the cluster", txn.ErrConflict)
	}
	if old := n.consentedPlan.Load(); old != nil {
		if !old.equal(f) {
			return fmt.Errorf("%w: this node has consented to bootstrap a cluster with other nodes (%v): empty the data directories of all, nothing is in them yet", txn.ErrConflict, old.Members)
		}
		return nil
	}
	if err := n.saveNote(bootstrapPlanKey, f); err != nil {
		return err
	}
	n.consentedPlan.Store(f)
	return nil
}

// commitToCluster saves, before this node asks to join the cluster of another node, that it
// belongs to that cluster and to no other: the answer may be lost although the node was added.
func (n *Node) commitToCluster(to peer.Identity) error {
	n.membershipMu.Lock()
	defer n.membershipMu.Unlock()
	switch f := n.consentedPlan.Load(); {
	case to.Cluster == "":
		return fmt.Errorf("%w: it has no leader yet", txn.ErrUnavailable)
	case n.checkPlan(to) != nil:
		return fmt.Errorf("%w: this node has consented to bootstrap a cluster with other nodes (%v): empty its data directory, nothing is in it yet", txn.ErrConflict, f.Members)
	default:
		return n.adoptCluster(clusterIdentity{to.Cluster, to.Incarnation})
	}
}

// admitRaft returns an error unless raft may receive messages of a node. A node with an empty
// log would accept the log of any sender. It is restricted to the nodes with which it has
// consented to bootstrap a cluster, or else to the first cluster that it has asked or that
// contacts it, for good.
func (n *Node) admitRaft(who peer.Identity) error {
	if !n.running.Load() {
		return errStarting
	}
	if err := n.admitPeer(who); err != nil {
		return err
	}
	if !n.isUnconfigured() {
		return n.checkPlan(who)
	}
	n.membershipMu.Lock()
	defer n.membershipMu.Unlock()
	switch err := n.checkPlan(who); {
	case err != nil:
		return err
	case who.Cluster != "":
		return n.adoptCluster(clusterIdentity{who.Cluster, who.Incarnation})
	case n.consentedPlan.Load() != nil || n.clusterIdentity().Cluster != "":
		return nil
	}
	return fmt.Errorf("%w: node %s does not know its cluster yet", txn.ErrUnavailable, who.ID)
}

// checkPlan refuses nodes outside the plan that this node has consented to, until it knows its
// cluster: the bootstrapping node has a log before that, whose first entry raft would not
// distinguish from that of another cluster.
func (n *Node) checkPlan(who peer.Identity) error {
	if f := n.consentedPlan.Load(); f != nil && !f.includes(who.ID) && n.clusterIdentity().Cluster == "" {
		return fmt.Errorf("%w: node %s has consented to found one with others than node %s", peer.ErrClusterMismatch, n.env.ID, who.ID)
	}
	return nil
}
