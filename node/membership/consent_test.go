package membership

import (
	"errors"
	"testing"

	"github.com/txmgr/txmgr/node/peer"
	"github.com/txmgr/txmgr/txn"
)

// TestConsentIsGivenOnce: a node consents to one bootstrap plan, also after a restart, and to none
// if it belongs to a cluster.
func TestConsentIsGivenOnce(t *testing.T) {
	addr := freePorts(t, 3)
	dir := t.TempDir()
	n := open(t, dir, addr[0], 3, addr...)
	me := peer.Member{ID: string(n.id), RaftAddr: addr[0]}
	with := func(others ...string) *bootstrapPlan {
		f := &bootstrapPlan{Bootstrapper: "n_a", Members: []peer.Member{{ID: "n_a", RaftAddr: "127.0.0.1:1"}}}
		for _, o := range others {
			f.Members = append(f.Members, peer.Member{ID: o, RaftAddr: "127.0.0.1:2"})
		}
		f.Members = append(f.Members, me)
		return f
	}
	if err := n.grantConsent(&bootstrapPlan{Bootstrapper: "n_a", Members: []peer.Member{{ID: "n_a"}, {ID: "n_b"}}}); !errors.Is(err, txn.ErrConflict) {
		t.Errorf("consent to a founding without itself: %v", err)
	}
	if err := n.grantConsent(with("n_b")); err != nil {
		t.Fatal(err)
	}
	n.stop()
	n = open(t, dir, addr[0], 3, addr...)
	if err := n.grantConsent(with("n_b")); err != nil {
		t.Errorf("the same question again: %v", err)
	}
	if err := n.grantConsent(with("n_c")); !errors.Is(err, txn.ErrConflict) {
		t.Errorf("consent to another founding: %v", err)
	}
}
