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
	// formEvery is how often a node that belongs to no cluster asks around.
	formEvery = 500 * time.Millisecond
	// askTimeout bounds one question to another node.
	askTimeout = 2 * time.Second
)

// founderKey is where a node notes for whom it voted to found the cluster.
var founderKey = []byte("txmgr/founder")

// founding is the plan to form a cluster: who writes its first entry, and who takes
// part. A node that has consented to one consents to no other, and belongs to no cluster
// but that one, so that no two clusters with a node in common ever come about.
type founding struct {
	Founder string        `json:"founder"`
	Members []peer.Member `json:"members"` // sorted by id
}

func (f *founding) includes(id string) bool {
	return slices.ContainsFunc(f.Members, func(m peer.Member) bool { return m.ID == id })
}

func (f *founding) equal(o *founding) bool {
	return f.Founder == o.Founder && slices.Equal(f.Members, o.Members)
}

// form makes a node with an empty log part of a cluster: of one that is there
// already, or of a new one that it founds together with the others that were expected.
// It ends when the node is part of one, or closes.
func (n *Node) form() {
	c := n.conf.Cluster
	ticker := time.NewTicker(formEvery)
	defer ticker.Stop()
	for n.belongsToNone() {
		if waiting := n.formOnce(c); waiting != "" {
			n.waitFor(waiting)
		}
		select {
		case <-ticker.C:
		case <-n.closing:
			return
		}
	}
	n.waitFor("")
}

// belongsToNone reports whether raft knows no servers: nothing was ever written here.
func (n *Node) belongsToNone() bool { return len(n.servers()) == 0 }

// servers is raft's configuration as this node knows it.
func (n *Node) servers() []raft.Server {
	f := n.raft.GetConfiguration()
	if f.Error() != nil {
		return nil
	}
	return f.Configuration().Servers
}

// waitFor notes what the node waits for, and tells it once.
func (n *Node) waitFor(what string) {
	if old := n.waiting.Swap(&what); what != "" && (old == nil || *old != what) {
		n.logger.Info("waiting", "for", what)
	}
}

// formOnce takes one step, and says what it waits for.
func (n *Node) formOnce(c *Cluster) string {
	ctx, cancel := context.WithTimeout(n.life, 2*askTimeout)
	defer cancel()
	seen, silent := n.lookAround(ctx, c.Join)
	refused := ""
	for _, p := range seen {
		if p.Fresh {
			continue
		}
		err := n.pledge(p)
		if err == nil {
			_, err = n.port.Join(ctx, p.Raft)
		}
		if err == nil {
			return "the log of the cluster"
		}
		if refused == "" || !p.Removed {
			refused = fmt.Sprintf("the cluster of %s to take this node in: %v", p.Raft, err)
		}
	}
	if refused != "" {
		return refused
	}
	switch {
	case c.Expect == 0 && len(c.Join) == 0:
		return "a cluster to take this node in: txmgr cluster join " + n.port.Addr() + ", at a node of the cluster; a new cluster needs --bootstrap-expect"
	case c.Expect == 0:
		return fmt.Sprintf("a cluster at %s; no node there is part of one (a new cluster needs --bootstrap-expect)", strings.Join(c.Join, ", "))
	}
	return n.foundWith(ctx, c.Expect, seen, silent)
}

// lookAround asks every address who is there. It leaves this node out.
func (n *Node) lookAround(ctx context.Context, addresses []string) (seen []peer.Identity, silent []string) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	found := make([]*peer.Identity, len(addresses))
	var wg sync.WaitGroup
	for i, a := range addresses {
		wg.Go(func() {
			if id, err := n.port.Hello(ctx, a); err == nil {
				found[i] = &id
			}
		})
	}
	wg.Wait()
	known := map[string]bool{string(n.storage.id): true}
	for i, p := range found {
		switch {
		case p == nil, p.Raft == "": // nobody, or somebody who is just being started
			silent = append(silent, addresses[i])
		case !known[p.ID]:
			known[p.ID] = true
			seen = append(seen, *p)
		}
	}
	return seen, silent
}

// foundWith founds a cluster of the expected number of nodes, when all of them are there.
// The one with the smallest id asks the others for their consent and writes the first
// entry; they get it from there.
func (n *Node) foundWith(ctx context.Context, expect int, seen []peer.Identity, silent []string) string {
	me := n.identity()
	all := append([]peer.Identity{me}, seen...)
	for _, p := range seen {
		if p.Expect != expect {
			return fmt.Sprintf("agreement: this node expects %d nodes, and %s at %s expects %d", expect, p.Name, p.Raft, p.Expect)
		}
		if p.Settings != me.Settings {
			return fmt.Sprintf("agreement: this node was given %s, and %s at %s was given %s", me.Settings, p.Name, p.Raft, p.Settings)
		}
	}
	switch {
	case len(all) > expect:
		return fmt.Sprintf("somebody to leave: %d nodes are here, and %d are expected", len(all), expect)
	case len(all) < expect:
		return fmt.Sprintf("%d more of %d nodes; nobody answers at %s", expect-len(all), expect, orElse(strings.Join(silent, ", "), "any further address in --join"))
	}
	f := &founding{}
	for _, p := range all {
		f.Members = append(f.Members, peer.Member{ID: p.ID, Raft: p.Raft})
	}
	slices.SortFunc(f.Members, func(a, b peer.Member) int { return strings.Compare(a.ID, b.ID) })
	f.Founder = f.Members[0].ID
	if f.Founder != me.ID {
		return "the node with the smallest id, " + f.Founder + ", to found the cluster"
	}
	if err := n.consent(f); err != nil {
		return err.Error()
	}
	for _, p := range seen {
		if err := n.port.Found(ctx, p.Raft, f.Members); err != nil {
			return fmt.Sprintf("the consent of %s at %s: %v", p.Name, p.Raft, err)
		}
	}
	var servers []raft.Server
	for _, m := range f.Members {
		servers = append(servers, raft.Server{ID: raft.ServerID(m.ID), Address: raft.ServerAddress(m.Raft)})
	}
	if err := n.raft.BootstrapCluster(raft.Configuration{Servers: servers}).Error(); err != nil {
		return "raft: " + err.Error()
	}
	n.logger.Info("founded a cluster", "nodes", len(f.Members))
	return ""
}

// consent notes that this node takes part in a founding, for ever, or refuses because
// it takes part in another one already, or in a cluster.
func (n *Node) consent(f *founding) error {
	n.founding.Lock()
	defer n.founding.Unlock()
	if !n.belongsToNone() {
		return fmt.Errorf("%w: this node belongs to a cluster already", txn.ErrConflict)
	}
	if a := n.allegiance(); a.Cluster != "" {
		return fmt.Errorf("%w: this node has asked cluster %s to take it in, or was taken in there: empty its data directory to found another one with it", txn.ErrConflict, a.Cluster)
	}
	if !f.includes(string(n.storage.id)) {
		return fmt.Errorf("%w: this node is not among those that found the cluster", txn.ErrConflict)
	}
	if old := n.promised.Load(); old != nil {
		if !old.equal(f) {
			return fmt.Errorf("%w: this node has consented to found a cluster with other nodes (%v): empty the data directories of all, nothing is in them yet", txn.ErrConflict, old.Members)
		}
		return nil
	}
	if err := n.remember(founderKey, f); err != nil {
		return err
	}
	n.promised.Store(f)
	return nil
}

// pledge notes, before this node asks the cluster of another to take it in, that it will
// belong to that one and to no other: the answer may get lost, and it be taken in all the
// same.
func (n *Node) pledge(to peer.Identity) error {
	n.founding.Lock()
	defer n.founding.Unlock()
	switch f := n.promised.Load(); {
	case to.Cluster == "":
		return fmt.Errorf("%w: it has no leader yet", txn.ErrUnavailable)
	case n.foundsWith(to) != nil:
		return fmt.Errorf("%w: this node has consented to found a cluster with other nodes (%v): empty its data directory, nothing is in it yet", txn.ErrConflict, f.Members)
	default:
		return n.belongTo(allegiance{to.Cluster, to.Incarnation})
	}
}

// follows says whether raft may hear a node. A node with an empty log knows nobody, and
// would take its log from whoever comes: it takes that from those with whom it has consented
// to found a cluster; or else from the first cluster that it has asked or that comes, for
// good.
func (n *Node) follows(who peer.Identity) error {
	if !n.running.Load() {
		return errStarting
	}
	if err := n.lets(who); err != nil {
		return err
	}
	if !n.belongsToNone() {
		return n.foundsWith(who)
	}
	n.founding.Lock()
	defer n.founding.Unlock()
	switch err := n.foundsWith(who); {
	case err != nil:
		return err
	case who.Cluster != "":
		return n.belongTo(allegiance{who.Cluster, who.Incarnation})
	case n.promised.Load() != nil || n.allegiance().Cluster != "":
		return nil
	}
	return fmt.Errorf("%w: node %s does not know its cluster yet", txn.ErrUnavailable, who.ID)
}

// foundsWith refuses strangers to a node that has consented to found a cluster, until it
// knows the cluster: its founder has a log before, whose first entry raft would not tell from
// another cluster's.
func (n *Node) foundsWith(who peer.Identity) error {
	if f := n.promised.Load(); f != nil && !f.includes(who.ID) && n.allegiance().Cluster == "" {
		return fmt.Errorf("%w: node %s has consented to found one with others than node %s", peer.ErrForeign, n.storage.id, who.ID)
	}
	return nil
}
