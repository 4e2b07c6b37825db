package membership

import (
	"errors"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/node/peer"
	"github.com/txmgr/txmgr/txn"
)

// TestConsentKeepsANodeFromOtherClusters: a node that has consented to bootstrap one cluster does
// not become a member of another: it does not ask to join it, it cannot be added there, and it
// does not accept that cluster's log.
func TestConsentKeepsANodeFromOtherClusters(t *testing.T) {
	addr := freePorts(t, 2)
	other := bootstrapped(t, addr[0])
	n := open(t, t.TempDir(), addr[1], 0)
	me := peer.Member{ID: string(n.id), RaftAddr: addr[1]}
	if err := n.grantConsent(&bootstrapPlan{Bootstrapper: "n_a", Members: []peer.Member{{ID: "n_a", RaftAddr: "127.0.0.1:1"}, me}}); err != nil {
		t.Fatal(err)
	}
	if err := n.commitToCluster(other.identity()); !errors.Is(err, txn.ErrConflict) {
		t.Errorf("it would ask another cluster: %v", err)
	}
	if _, err := other.Join(t.Context(), addr[1], "", ""); !errors.Is(err, txn.ErrConflict) {
		t.Errorf("another cluster added it: %v", err)
	}
	if err := n.admitRaft(other.identity()); !errors.Is(err, peer.ErrClusterMismatch) {
		t.Errorf("it takes the log of another cluster: %v", err)
	}
	if err := n.admitRaft(peer.Identity{ID: "n_a"}); err != nil {
		t.Errorf("it does not take the founder's log: %v", err)
	}
	if len(other.Servers()) != 1 {
		t.Errorf("the other cluster has %v", other.Servers())
	}
}

// TestANodeIsTakenInOnce: a node that has asked to join a cluster, or was added by one, joins no
// other and bootstraps none, also after a restart.
func TestANodeIsTakenInOnce(t *testing.T) {
	addr := freePorts(t, 3)
	one, two := bootstrapped(t, addr[0]), bootstrapped(t, addr[1])
	dir := t.TempDir()
	n := open(t, dir, addr[2], 0)
	if err := n.admitRaft(peer.Identity{ID: "n_x"}); !errors.Is(err, txn.ErrUnavailable) {
		t.Errorf("it takes the log of a node that knows no cluster: %v", err)
	}
	if err := n.commitToCluster(peer.Identity{ID: "n_x"}); !errors.Is(err, txn.ErrUnavailable) {
		t.Errorf("it would ask a node that knows no cluster: %v", err)
	}
	if err := n.admitRaft(one.identity()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := n.admitRaft(two.identity()); !errors.Is(err, peer.ErrClusterMismatch) {
			t.Errorf("it takes the log of a second cluster: %v", err)
		}
		if err := n.commitToCluster(two.identity()); !errors.Is(err, peer.ErrClusterMismatch) {
			t.Errorf("it would ask a second cluster: %v", err)
		}
		f := &bootstrapPlan{Bootstrapper: "n_a", Members: []peer.Member{{ID: "n_a", RaftAddr: "127.0.0.1:1"}, {ID: string(n.id), RaftAddr: addr[2]}}}
		if err := n.grantConsent(f); !errors.Is(err, txn.ErrConflict) {
			t.Errorf("it consented to bootstrap a cluster: %v", err)
		}
		if _, err := two.Join(t.Context(), addr[2], "", ""); err == nil {
			t.Error("a second cluster added it")
		}
		n.stop()
		n = open(t, dir, addr[2], 0)
	}
	if _, err := one.Join(t.Context(), addr[2], "", ""); err != nil {
		t.Errorf("the first cluster cannot add it any more: %v", err)
	}
	waittest.Until(t, "it votes in the first cluster", func() bool { return one.Voters() == 2 })
	if len(two.Servers()) != 1 {
		t.Errorf("the second cluster has %v", two.Servers())
	}
}

// TestBootstrapperIgnoresOtherClusters: the bootstrapping node has a log before it has a cluster id.
// Another cluster that was about to add it must not reach it in between, since raft would not
// distinguish the two first entries. Once it knows its cluster, it accepts all nodes of that
// cluster, also those that joined later.
func TestBootstrapperIgnoresOtherClusters(t *testing.T) {
	addr := freePorts(t, 2)
	n := open(t, t.TempDir(), addr[0], 0)
	me := peer.Member{ID: string(n.id), RaftAddr: addr[0]}
	f := &bootstrapPlan{Bootstrapper: me.ID, Members: []peer.Member{me, {ID: "n_z", RaftAddr: addr[1]}}}
	if err := n.grantConsent(f); err != nil {
		t.Fatal(err)
	}
	outsider := peer.Identity{ID: "n_a", Cluster: "abcdef"}
	check := func(when string) {
		t.Helper()
		if err := n.admitRaft(outsider); !errors.Is(err, peer.ErrClusterMismatch) {
			t.Errorf("%s it hears another cluster: %v", when, err)
		}
		if err := n.admitRaft(peer.Identity{ID: "n_z"}); err != nil {
			t.Errorf("%s it does not hear the other member: %v", when, err)
		}
	}
	check("before it founds")
	var servers []raft.Server
	for _, m := range f.Members {
		servers = append(servers, raft.Server{ID: raft.ServerID(m.ID), Address: raft.ServerAddress(m.RaftAddr)})
	}
	if err := n.raft.BootstrapCluster(raft.Configuration{Servers: servers}).Error(); err != nil {
		t.Fatal(err)
	}
	check("when it has founded")

	late := open(t, t.TempDir(), addr[1], 0)
	me = peer.Member{ID: string(late.id), RaftAddr: addr[1]}
	if err := late.grantConsent(&bootstrapPlan{Bootstrapper: "n_z", Members: []peer.Member{me, {ID: "n_z", RaftAddr: addr[0]}}}); err != nil {
		t.Fatal(err)
	}
	if err := late.commitToCluster(peer.Identity{ID: "n_z", Cluster: "fedcba"}); err != nil {
		t.Fatal(err)
	}
	joined := peer.Identity{ID: "n_j", Cluster: "fedcba"}
	if err := late.admitRaft(joined); err != nil {
		t.Errorf("it does not hear a node that joined its cluster later: %v", err)
	}
	if err := late.commitToCluster(joined); err != nil {
		t.Errorf("it does not ask a node that joined its cluster later: %v", err)
	}
	if err := late.admitRaft(outsider); !errors.Is(err, peer.ErrClusterMismatch) {
		t.Errorf("it hears another cluster: %v", err)
	}
}
