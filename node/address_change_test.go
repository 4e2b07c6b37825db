package node

import (
	"testing"
	"time"

	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/txn"
)

// bootstrapped is a cluster of one node.
func bootstrapped(t *testing.T, addr string) *Node {
	t.Helper()
	n := openMember(t, t.TempDir(), Cluster{Listen: addr, Name: "first", Expect: 1})
	return leaderOf(t, n)
}

// configuredAddress is the address of a node in raft's configuration, as n knows it.
func configuredAddress(n, of *Node) string {
	for _, m := range n.cluster.Members() {
		if m.ID == string(of.env.ID) {
			return m.RaftAddr
		}
	}
	return ""
}

// TestAMajorityMovesToOtherAddresses: all nodes are restarted at other addresses, so that no node
// reaches another at the address in raft's configuration. They find one another by the addresses
// that they were started with, and the configuration is updated.
func TestAMajorityMovesToOtherAddresses(t *testing.T) {
	addr := freePorts(t, 3)
	var old []*Node
	for _, a := range addr {
		old = append(old, openMember(t, t.TempDir(), Cluster{Listen: a, Expect: 3, Join: addr}))
	}
	b, err := leaderOf(t, old...).Begin(t.Context(), txn.Options{Timeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range old {
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
	}
	addr = freePorts(t, 3)
	var nodes []*Node
	for i, n := range old {
		nodes = append(nodes, openMember(t, n.conf.DataDir, Cluster{Listen: addr[i], Expect: 3, Join: addr}))
	}
	l := leaderOf(t, nodes...)
	if i, err := l.Get(t.Context(), b.ID); err != nil || i.State != txn.Active {
		t.Errorf("the transaction is %v, %v", i.State, err)
	}
	waittest.Until(t, "raft's configuration knows the new addresses", func() bool {
		for i, n := range nodes {
			if configuredAddress(l, n) != addr[i] {
				return false
			}
		}
		return true
	})
}

// TestAloneAndBack: a cluster of one is restarted as a single node, and then with [Config.Cluster]
// again, at another address.
func TestAloneAndBack(t *testing.T) {
	addr := freePorts(t, 3)
	n := bootstrapped(t, addr[0])
	b, err := n.Begin(t.Context(), txn.Options{Timeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	dir := n.conf.DataDir
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	alone := open(t, dir, slow)
	if i, err := alone.Get(t.Context(), b.ID); err != nil || i.State != txn.Active {
		t.Errorf("alone: %v, %v", i.State, err)
	}
	if err := alone.Close(); err != nil {
		t.Fatal(err)
	}
	back := leaderOf(t, openMember(t, dir, Cluster{Listen: addr[1]}))
	openMember(t, t.TempDir(), Cluster{Listen: addr[2], Join: addr[1:2]})
	waittest.Until(t, "another one votes", func() bool { return back.cluster.Voters() == 2 })
	if at := configuredAddress(back, back); at != addr[1] {
		t.Errorf("its address is %s; want %s", at, addr[1])
	}
}
