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

// allegiance is the cluster that a node belongs to.
type allegiance struct {
	Cluster     string `json:"cluster"`
	Incarnation uint64 `json:"incarnation"`
}

// clusterKey is where a node notes its allegiance: it knows that before it has applied
// the log, after a restart, and before it has one, when it has asked to be taken in.
var clusterKey = []byte("txmgr/cluster")

const (
	// mindEvery is how often a node looks after its own membership.
	mindEvery = time.Second
	// lonely is after how many looks without a leader a node asks the others why.
	lonely = 3
)

// allegiance is zero as long as no cluster is known.
func (n *Node) allegiance() (a allegiance) {
	n.fsm.View(func(m *machine.Machine) {
		boot, _ := m.Bootstrap()
		a = allegiance{boot.Cluster, m.Incarnation()}
	})
	if known := n.known.Load(); a.Cluster == "" && known != nil {
		return *known
	}
	return a
}

// mind looks after this node's own membership: it notes the cluster it belongs to,
// tells the others when its address is another than they know, and finds out when it
// was removed.
func (n *Node) mind() {
	ticker := time.NewTicker(mindEvery)
	defer ticker.Stop()
	for without := 0; ; without++ {
		select {
		case <-ticker.C:
		case <-n.closing:
			return
		}
		n.noteAllegiance()
		n.port.Recheck() // connections of those that were removed meanwhile
		leader, id := n.raft.LeaderWithID()
		if id != "" {
			without = 0
		}
		switch {
		case n.belongsToNone():
		case without >= lonely:
			without = 0
			n.askWhy()
		case id != "" && id != n.storage.id && n.moved():
			n.askOne(n.life, string(leader))
		}
	}
}

// recall reads what was noted.
func (n *Node) recall(log raft.StableStore) error {
	var a allegiance
	if found, err := remembered(log, clusterKey, &a); err != nil {
		return err
	} else if found && a.Cluster != "" {
		n.known.Store(&a)
	}
	var f founding
	if found, err := remembered(log, founderKey, &f); err != nil {
		return err
	} else if found {
		n.promised.Store(&f)
	}
	return nil
}

// remembered reads a note of this node's; false when there is none.
func remembered(log raft.StableStore, key []byte, into any) (bool, error) {
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

func (n *Node) remember(key []byte, note any) error {
	b, err := json.Marshal(note)
	if err != nil {
		return err
	}
	return n.storage.log.Set(key, b)
}

func (n *Node) noteAllegiance() {
	a, known := n.allegiance(), n.known.Load()
	if a.Cluster == "" || known != nil && *known == a {
		return
	}
	n.founding.Lock()
	defer n.founding.Unlock()
	if err := n.belongTo(a); err != nil {
		n.logger.Warn("cannot note the cluster that this node belongs to", "error", err)
	}
}

// belongTo notes the cluster. What the log has applied is the last word; before, the first
// one is. The caller holds founding.
func (n *Node) belongTo(a allegiance) error {
	known := n.known.Load()
	if known != nil && *known == a {
		return nil
	}
	if own := n.allegiance(); own.Cluster != "" && own != a {
		return fmt.Errorf("%w: node %s has asked cluster %s to take it in, and this is %s: empty its data directory, nothing is in it yet", peer.ErrForeign, n.storage.id, own.Cluster, a.Cluster)
	}
	if err := n.remember(clusterKey, a); err != nil {
		return err
	}
	n.known.Store(&a)
	return nil
}

// askWhy asks the others why this node hears of no leader: because it was removed, or
// because they look for it elsewhere, or it for them. Where they were started with other
// addresses, the addresses that this node was started with may know.
func (n *Node) askWhy() {
	ctx, cancel := context.WithTimeout(n.life, 2*askTimeout)
	defer cancel()
	asked := map[string]bool{n.port.Addr(): true}
	ask := func(address string) {
		if !asked[address] {
			asked[address] = true
			n.askOne(ctx, address)
		}
	}
	for _, s := range n.servers() {
		ask(string(s.Address))
	}
	for _, address := range n.conf.Cluster.Join {
		ask(address)
	}
}

// askOne asks a node who it is, for its address, and tells it this node's, if that is news.
func (n *Node) askOne(ctx context.Context, address string) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	who, err := n.port.Hello(ctx, address)
	if err == nil {
		n.moves.note(who.ID, n.addressOf(who.ID), who.Raft)
		if n.moved() {
			_, err = n.port.Join(ctx, address)
		}
	}
	if errors.Is(err, peer.ErrRemoved) {
		n.gone.Store(true)
		n.waitFor("nothing: this node was removed from its cluster, and its id is never used again. To add it as a new node, stop it, empty its data directory, and start it")
	}
}

// moved reports whether the others look for this node at another address.
func (n *Node) moved() bool {
	at := n.addressOf(string(n.storage.id))
	return at != "" && at != n.port.Addr()
}

// addressOf is the address that raft's configuration has for a node; empty when it has
// none.
func (n *Node) addressOf(id string) string {
	for _, s := range n.servers() {
		if string(s.ID) == id {
			return string(s.Address)
		}
	}
	return ""
}
