package node

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// freePorts returns addresses on loopback that no process listens on.
func freePorts(t *testing.T, n int) []string {
	t.Helper()
	var out []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		out = append(out, l.Addr().String())
	}
	return out
}

func openMember(t *testing.T, dir string, c Cluster) *Node {
	t.Helper()
	n, err := Open(t.Context(), Config{DataDir: dir, Cluster: &c})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	return n
}

func leaderOf(t *testing.T, nodes ...*Node) (leader *Node) {
	t.Helper()
	waittest.Until(t, "one leads", func() bool {
		for _, n := range nodes {
			if n.requireLeader() == nil && n.requireReadable(t.Context()) == nil {
				leader = n
				return true
			}
		}
		return false
	})
	return leader
}

// TestClusterForms: three nodes that know one another's addresses bootstrap one cluster; a fourth
// one joins it; one is removed, and cannot vote or serve any more; one leaves.
func TestClusterForms(t *testing.T) {
	addr := freePorts(t, 4)
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()}
	at := func(i int) Cluster {
		return Cluster{Listen: addr[i], Name: string(rune('a' + i)), API: fmt.Sprintf("http://127.0.0.1:%d", 1000+i), Expect: 3, Join: addr[:3]}
	}
	var nodes []*Node
	for i := range 3 {
		nodes = append(nodes, openMember(t, dirs[i], at(i)))
	}
	l := leaderOf(t, nodes...)
	b, err := l.Begin(t.Context(), txn.Options{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "every node knows the three by name", func() bool {
		for _, n := range nodes {
			m := n.cluster.Members()
			if len(m) != 3 || m[0].Name != "a" || m[1].Name != "b" || m[2].Name != "c" || m[0].API == "" {
				return false
			}
		}
		return true
	})
	for _, n := range nodes {
		if n.clusterID() != l.clusterID() || n.clusterID() == "" {
			t.Errorf("cluster %q; want %q", n.clusterID(), l.clusterID())
		}
	}

	// The fourth.
	c := at(3)
	c.Expect = 0
	fourth := openMember(t, dirs[3], c)
	waittest.Until(t, "the fourth node votes, and has the state", func() bool {
		for _, m := range l.cluster.Members() {
			if m.Name == "d" && m.Voter {
				i, err := fourth.Get(txn.AllowStale(t.Context()), b.ID)
				return err == nil && i.State == txn.Active
			}
		}
		return false
	})

	// One is removed.
	var gone *Node
	for _, n := range nodes {
		if n != l {
			gone = n
		}
	}
	name := gone.conf.Cluster.Name
	if err := l.Admin().Remove(t.Context(), name, "test", "a test"); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "the removed node says so", func() bool { return strings.Contains(gone.cluster.WaitsFor(), "was removed") })
	if err := gone.Close(); err != nil {
		t.Error(err)
	}
	back := openMember(t, gone.conf.DataDir, *gone.conf.Cluster)
	waittest.Until(t, "it is told that it was removed when it comes back", func() bool { return strings.Contains(back.cluster.WaitsFor(), "was removed") })
	if m := l.cluster.Members(); len(m) != 3 {
		t.Errorf("%d members after one of four was removed", len(m))
	}

	// With an empty disk it is accepted again, as a new node.
	if err := back.Close(); err != nil {
		t.Error(err)
	}
	again := openMember(t, filepath.Join(t.TempDir(), "new"), *gone.conf.Cluster)
	waittest.Until(t, "it is a voter again", func() bool {
		for _, m := range l.cluster.Members() {
			if m.Name == name && m.Voter && m.ID == string(again.env.ID) {
				return true
			}
		}
		return false
	})

	// The leader leaves.
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := l.Admin().Leave(ctx, "", ""); err != nil {
		t.Fatal(err)
	}
	var rest []*Node
	for _, n := range append(nodes, fourth, again) {
		if n != l && n != gone {
			rest = append(rest, n)
		}
	}
	l2 := leaderOf(t, rest...)
	if len(l2.cluster.Members()) != 3 {
		t.Errorf("%d members", len(l2.cluster.Members()))
	}
	audit, err := l2.Admin().Audit(t.Context(), admin.AuditFilter{Limit: 1})
	if err != nil || len(audit) != 1 || audit[0].By != "node "+string(l.env.ID) || audit[0].Reason != "it left" {
		t.Errorf("%+v, %v", audit, err)
	}
	if i, err := l2.Get(t.Context(), b.ID); err != nil || i.State != txn.Active {
		t.Errorf("%v, %v", i.State, err)
	}
}
