package node

import (
	"runtime"
	"testing"

	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/txn"
)

// TestAFollowerIsReadyWhenItKnowsTheLeader: a restarted follower learns of the leader before it
// has applied the entry with the leader's name and address. It is not ready until then: it could
// not forward calls, and would list nodes without names.
func TestAFollowerIsReadyWhenItKnowsTheLeader(t *testing.T) {
	addr := freePorts(t, 3)
	var nodes []*Node
	at := func(dir string, i int) *Node {
		return openMember(t, dir, Cluster{Listen: addr[i], Name: string(rune('a' + i)), API: "http://" + addr[i], Expect: 3, Join: addr})
	}
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	for i := range addr {
		nodes = append(nodes, at(dirs[i], i))
	}
	l := leaderOf(t, nodes...)
	waittest.Until(t, "the leader knows all nodes", func() bool {
		for _, m := range l.cluster.Members() {
			if m.Name == "" {
				return false
			}
		}
		return true
	})
	follower := 0
	if nodes[0] == l {
		follower = 1
	}
	for range 5 {
		if err := nodes[follower].Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Begin(t.Context(), txn.Options{}); err != nil { // so that there is an entry that it has not applied
			t.Fatal(err)
		}
		n := at(dirs[follower], follower)
		nodes[follower] = n
		for n.Ready() != nil {
			runtime.Gosched() // and no longer, so that the first moment is seen
		}
		if api, here := n.Leader(); api == "" && !here {
			t.Error("a follower is ready and does not know the leader's address")
		}
	}
}
