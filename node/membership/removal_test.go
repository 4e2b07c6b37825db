package membership

import (
	"testing"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/internal/waittest"
)

// TestRemovalIsCompleted: where a leader fails between the two halves of a removal, raft
// does not know the node any more, and the log still knows it as a member. The leader
// strikes its id then.
func TestRemovalIsCompleted(t *testing.T) {
	addr := freePorts(t, 2)
	l := bootstrapped(t, addr[0])
	n := open(t, t.TempDir(), addr[1], 0, addr[:1]...)
	waittest.Until(t, "the second node votes", func() bool {
		return l.Voters() == 2 && l.Record(string(n.id)).Node != ""
	})
	if err := l.raft.RemoveServer(n.id, 0, 0).Error(); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "its id is struck", func() bool { return l.isRemoved(string(n.id)) })
	waittest.Until(t, "it knows that", func() bool { return n.removed.Load() })
}

// TestARemovedNodeIsNoWayIn: a removed node that still runs does not keep a new one from finding
// the cluster at the next address, and cannot be made a voter by a leader that had contacted it
// just before.
func TestARemovedNodeIsNoWayIn(t *testing.T) {
	addr := freePorts(t, 3)
	l := bootstrapped(t, addr[0])
	n := open(t, t.TempDir(), addr[1], 0, addr[:1]...)
	waittest.Until(t, "the second node votes", func() bool { return l.Voters() == 2 })
	if err := l.Remove(t.Context(), string(n.id), "test", "a test"); err != nil {
		t.Fatal(err)
	}
	l.promoteLearner(raft.Server{Suffrage: raft.Nonvoter, ID: n.id, Address: raft.ServerAddress(addr[1])})
	if len(l.Servers()) != 1 {
		t.Errorf("the removed node is back: %v", l.Servers())
	}
	waittest.Until(t, "the removed node knows no leader any more", func() bool {
		_, id := n.raft.LeaderWithID()
		return id == "" && n.removed.Load()
	})
	open(t, t.TempDir(), addr[2], 0, addr[1], addr[0])
	waittest.Until(t, "the new node votes", func() bool { return l.Voters() == 2 })
}
