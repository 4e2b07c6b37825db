package membership

import (
	"context"
	"errors"
	"time"

	"github.com/txmgr/txmgr/node/peer"
)

const (
	// membershipInterval is how often a node checks its own membership.
	membershipInterval = time.Second
	// leaderlessPolls is after how many checks without a leader a node asks the others why.
	leaderlessPolls = 3
)

// runMembershipLoop maintains this node's own membership: it saves the cluster that the node
// belongs to, reports the node's address to the others when it differs from raft's
// configuration, and detects that the node was removed.
func (c *Cluster) runMembershipLoop() {
	ticker := time.NewTicker(membershipInterval)
	defer ticker.Stop()
	for leaderless := 0; ; leaderless++ {
		select {
		case <-ticker.C:
		case <-c.conf.Context.Done():
			return
		}
		c.saveClusterIdentity()
		c.peerServer.Reauthorize() // closes connections of nodes that were removed meanwhile
		leader, id := c.raft.LeaderWithID()
		if id != "" {
			leaderless = 0
		}
		switch {
		case c.isUnconfigured():
		case leaderless >= leaderlessPolls:
			leaderless = 0
			c.probePeers()
		case id != "" && id != c.id && c.addressChanged():
			c.probePeer(c.conf.Context, string(leader))
		}
	}
}

// probePeers asks the other nodes why this node has no leader: because it was removed, or
// because it and the others use outdated addresses of one another. When the others were started
// with other addresses, one of [Cluster].Join may reach them.
func (c *Cluster) probePeers() {
	ctx, cancel := context.WithTimeout(c.conf.Context, 2*peerCallTimeout)
	defer cancel()
	asked := map[string]bool{c.peerServer.Addr(): true}
	ask := func(address string) {
		if !asked[address] {
			asked[address] = true
			c.probePeer(ctx, address)
		}
	}
	for _, s := range c.Servers() {
		ask(string(s.Address))
	}
	for _, address := range c.conf.Join {
		ask(address)
	}
}

// probePeer asks the node at an address for its identity, to learn its address, and reports this
// node's address to it, if that has changed.
func (c *Cluster) probePeer(ctx context.Context, address string) {
	ctx, cancel := context.WithTimeout(ctx, peerCallTimeout)
	defer cancel()
	who, err := c.peerServer.Hello(ctx, address)
	if err == nil {
		c.addressOverrides.record(who.ID, c.configuredAddress(who.ID), who.RaftAddr)
		if c.addressChanged() {
			_, err = c.peerServer.Join(ctx, address)
		}
	}
	if errors.Is(err, peer.ErrRemoved) {
		c.removed.Store(true)
		c.setBootstrapStatus("nothing: this node was removed from its cluster, and its id is never used again. To add it as a new node, stop it, empty its data directory, and start it")
	}
}

// addressChanged reports whether raft's configuration has another address for this node.
func (c *Cluster) addressChanged() bool {
	at := c.configuredAddress(string(c.id))
	return at != "" && at != c.peerServer.Addr()
}
