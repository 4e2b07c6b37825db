package membership

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/node/peer"
)

const (
	// bootstrapInterval is how often a node that belongs to no cluster asks the other nodes.
	bootstrapInterval = 500 * time.Millisecond
	// peerCallTimeout bounds one request to another node.
	peerCallTimeout = 2 * time.Second
)

// joinOrBootstrap makes a node with an empty log a member of a cluster: of an existing one, or
// of a new one that it bootstraps together with the other nodes that were expected. It ends
// when the node is a member, or closes.
func (c *Cluster) joinOrBootstrap() {
	ticker := time.NewTicker(bootstrapInterval)
	defer ticker.Stop()
	for c.isUnconfigured() {
		if waiting := c.joinOrBootstrapOnce(); waiting != "" {
			c.setBootstrapStatus(waiting)
		}
		select {
		case <-ticker.C:
		case <-c.conf.Context.Done():
			return
		}
	}
	c.setBootstrapStatus("")
}

// setBootstrapStatus records what the node waits for, and logs each change once.
func (c *Cluster) setBootstrapStatus(what string) {
	if old := c.bootstrapStatus.Swap(&what); what != "" && (old == nil || *old != what) {
		c.conf.Logger.Info("waiting", "for", what)
	}
}

// joinOrBootstrapOnce makes one attempt, and returns what the node waits for.
func (c *Cluster) joinOrBootstrapOnce() string {
	ctx, cancel := context.WithTimeout(c.conf.Context, 2*peerCallTimeout)
	defer cancel()
	seen, unreachable := c.discoverPeers(ctx, c.conf.Join)
	refused := ""
	for _, p := range seen {
		if p.Empty {
			continue
		}
		err := c.commitToCluster(p)
		if err == nil {
			_, err = c.peerServer.Join(ctx, p.RaftAddr)
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
	case c.conf.Self.Expect == 0 && len(c.conf.Join) == 0:
		return "a cluster to take this node in: a node of the cluster has to let " + c.peerServer.Addr() + " join; a new cluster needs bootstrap_expect"
	case c.conf.Self.Expect == 0:
		return fmt.Sprintf("a cluster at %s; no node there is part of one (a new cluster needs bootstrap_expect)", strings.Join(c.conf.Join, ", "))
	}
	return c.bootstrapWith(ctx, c.conf.Self.Expect, seen, unreachable)
}

// discoverPeers asks every address for the identity of the node there. It leaves this node out.
func (c *Cluster) discoverPeers(ctx context.Context, addresses []string) (seen []peer.Identity, unreachable []string) {
	ctx, cancel := context.WithTimeout(ctx, peerCallTimeout)
	defer cancel()
	found := make([]*peer.Identity, len(addresses))
	var wg sync.WaitGroup
	for i, a := range addresses {
		wg.Go(func() {
			if id, err := c.peerServer.Hello(ctx, a); err == nil {
				found[i] = &id
			}
		})
	}
	wg.Wait()
	known := map[string]bool{string(c.id): true}
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
func (c *Cluster) bootstrapWith(ctx context.Context, expect int, seen []peer.Identity, unreachable []string) string {
	me := c.identity()
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
		return fmt.Sprintf("%d more of %d nodes; no answer from %s", expect-len(all), expect, cmp.Or(strings.Join(unreachable, ", "), "any further address in join"))
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
	if err := c.grantConsent(f); err != nil {
		return err.Error()
	}
	for _, p := range seen {
		if err := c.peerServer.ConsentToBootstrap(ctx, p.RaftAddr, f.Members); err != nil {
			return fmt.Sprintf("the consent of %s at %s: %v", p.Name, p.RaftAddr, err)
		}
	}
	var servers []raft.Server
	for _, m := range f.Members {
		servers = append(servers, raft.Server{ID: raft.ServerID(m.ID), Address: raft.ServerAddress(m.RaftAddr)})
	}
	if err := c.raft.BootstrapCluster(raft.Configuration{Servers: servers}).Error(); err != nil {
		return "raft: " + err.Error()
	}
	c.conf.Logger.Info("bootstrapped a cluster", "nodes", len(f.Members))
	return ""
}
