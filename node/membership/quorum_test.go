package membership

import (
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/node/peer"
	"github.com/txmgr/txmgr/txn"
)

// openThree is a cluster of three voters, the leader first.
func openThree(t *testing.T) (nodes []*member) {
	t.Helper()
	addr := freePorts(t, 3)
	for _, a := range addr {
		nodes = append(nodes, open(t, t.TempDir(), a, 3, addr...))
	}
	l := leaderOf(t, nodes...)
	for i := range nodes {
		if nodes[i] == l {
			nodes[0], nodes[i] = nodes[i], nodes[0]
		}
	}
	return nodes
}

// TestNoRemovalTakesTheQuorum: with one of three nodes down, that node can be removed, and neither
// of the others: no quorum would be left. A node with an empty disk that wrongly reports the
// address of a member does not replace that member either.
func TestNoRemovalTakesTheQuorum(t *testing.T) {
	n := openThree(t)
	l, up, down := n[0], n[1], n[2]
	alive := func() {
		t.Helper()
		if err := l.write(t); err != nil {
			t.Fatal(err)
		}
		if len(l.Servers()) != 3 || l.isRemoved(string(up.id)) {
			t.Fatalf("the members are %v", l.Servers())
		}
	}
	outsider := peer.Identity{ID: "n_new", RaftAddr: up.peerServer.Addr(), Empty: true}
	if err := l.addLearner(t.Context(), outsider); !errors.Is(err, txn.ErrConflict) {
		t.Errorf("a node with another's address: %v", err)
	}
	alive()
	down.stop()
	for _, node := range []*member{up, l} {
		if err := l.Remove(t.Context(), string(node.id), "test", "by mistake"); !errors.Is(err, txn.ErrConflict) {
			t.Errorf("removing a node that is needed: %v", err)
		}
		if err := node.Leave(t.Context(), "", ""); !errors.Is(err, txn.ErrConflict) {
			t.Errorf("a node that is needed leaves: %v", err)
		}
		alive()
	}
	outsider.RaftAddr = down.peerServer.Addr() // no node runs there
	if err := l.addLearner(t.Context(), outsider); !errors.Is(err, txn.ErrUnavailable) {
		t.Errorf("a node that is not where it says: %v", err)
	}
	alive()
	if err := l.Remove(t.Context(), string(down.id), "test", "it is down"); err != nil {
		t.Errorf("removing the node that is down: %v", err)
	}
	if err := l.write(t); err != nil {
		t.Error(err)
	}
}

// TestALearnerThatDoesNotFollowGetsNoVote: a node that was added here, and has meanwhile consented
// to bootstrap another cluster, still reports its identity, and that it has applied nothing; in a
// short log that is a small lag. If it became a voter, there would be no quorum any more.
func TestALearnerThatDoesNotFollowGetsNoVote(t *testing.T) {
	l := bootstrapped(t, freePorts(t, 1)[0])
	who := peer.Identity{ID: "n_x", Empty: true}
	p, err := peer.Open(peer.Config{
		Listen: "127.0.0.1:0", Self: func() peer.Identity { return who },
		AdmitRaft: func(peer.Identity) error { return peer.ErrClusterMismatch },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	who.RaftAddr = p.Addr()
	p.Transport() // it accepts streams, or rejects them
	if err := l.addLearner(t.Context(), who); err != nil {
		t.Fatal(err)
	}
	heard := func() time.Time {
		l.autopilot.mu.Lock()
		defer l.autopilot.mu.Unlock()
		return l.autopilot.followers[who.ID].at
	}
	for range 2 {
		last := heard()
		waittest.Until(t, "the leader has asked who it is", func() bool { return heard().After(last) || l.Voters() > 1 })
	}
	if err := l.write(t); err != nil || l.Voters() != 1 {
		t.Errorf("%d voters; writing: %v", l.Voters(), err)
	}
}

// TestACopyOfANodeDoesNotTakeItsPlace: a node that is running keeps its address when a copy
// of its data directory is started at another one.
func TestACopyOfANodeDoesNotTakeItsPlace(t *testing.T) {
	addr := freePorts(t, 2)
	l := bootstrapped(t, addr[0])
	n := open(t, t.TempDir(), addr[1], 0, addr[:1]...)
	waittest.Until(t, "the second node votes", func() bool { return l.Voters() == 2 })
	copied := n.identity()
	p, err := peer.Open(peer.Config{Listen: "127.0.0.1:0", Self: func() peer.Identity { return copied }})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	copied.RaftAddr = p.Addr()
	if _, err := p.Join(t.Context(), addr[0]); err == nil {
		t.Error("the copy was noted as the node")
	}
	if at := l.configuredAddress(copied.ID); at != addr[1] {
		t.Errorf("the node's address is %s; want %s", at, addr[1])
	}
}

// TestAClusterHasAnEnd: a cluster accepts no more than MaxNodes nodes.
func TestAClusterHasAnEnd(t *testing.T) {
	l := bootstrapped(t, freePorts(t, 1)[0])
	for i := range MaxNodes - 1 {
		id := raft.ServerID("n_" + string(rune('a'+i)))
		if err := l.raft.AddNonvoter(id, raft.ServerAddress(id), 0, 0).Error(); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.addLearner(t.Context(), peer.Identity{ID: "n_z", RaftAddr: "127.0.0.1:1", Empty: true}); !errors.Is(err, txn.ErrConflict) {
		t.Errorf("one more: %v", err)
	}
}
