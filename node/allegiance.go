package node

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/txmgr/txmgr/node/peer"
	"github.com/txmgr/txmgr/txn/machine"
)

// allegiance is the cluster that a node belongs to.
type allegiance struct {
	Cluster     string
	Incarnation uint64
}

// clusterKey is where a node notes its allegiance: after a restart it knows that
// before it has applied the log.
var clusterKey = []byte("txmgr/cluster")

const (
	// mindEvery is how often a node looks after its own membership.
	mindEvery = time.Second
	// lonely is after how many looks without a leader a node asks the others why.
	lonely = 5
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
		if _, id := n.raft.LeaderWithID(); id != "" {
			without = 0
		}
		if without >= lonely && !n.belongsToNone() {
			without = 0
			n.askWhy()
		}
	}
}

// recall reads what was noted.
func (n *Node) recall() {
	var a allegiance
	if b, err := n.storage.log.Get(clusterKey); err == nil && json.Unmarshal(b, &a) == nil && a.Cluster != "" {
		n.known.Store(&a)
	}
}

func (n *Node) noteAllegiance() {
	a, known := n.allegiance(), n.known.Load()
	if a.Cluster == "" || known != nil && *known == a {
		return
	}
	b, err := json.Marshal(a)
	if err == nil {
		err = n.storage.log.Set(clusterKey, b)
	}
	if err != nil {
		n.logger.Warn("cannot note the cluster that this node belongs to", "error", err)
		return
	}
	n.known.Store(&a)
}

// askWhy asks the others why this node hears of no leader: because it was removed, or
// because they look for it elsewhere.
func (n *Node) askWhy() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*askTimeout)
	defer cancel()
	me := n.identity()
	for _, s := range n.servers() {
		if s.ID == n.storage.id {
			continue
		}
		var err error
		if moved := n.addressOf(me.ID); moved != "" && moved != me.Raft {
			_, err = n.port.Join(ctx, string(s.Address))
		} else {
			_, err = n.port.Hello(ctx, string(s.Address))
		}
		if errors.Is(err, peer.ErrRemoved) {
			n.gone.Store(true)
			n.waitFor("nothing: this node was removed from its cluster, and its id is never used again. To add it as a new node, stop it, empty its data directory, and start it")
			return
		}
	}
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
