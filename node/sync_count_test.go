package node

import (
	"testing"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// TestALoneCommitSyncsTwice: a begin and a commit with nothing beside them cost one synchronisation of the disk each.
func TestALoneCommitSyncsTwice(t *testing.T) {
	n := open(t, t.TempDir())
	syncs := func() uint64 {
		t.Helper()
		s, err := n.Admin().Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return s.Syncs
	}
	least := uint64(100)
	for range 10 { // a tick may come in between
		before := syncs()
		b := begin(t, n, time.Hour)
		if _, err := n.Commit(t.Context(), b.ID, txn.CommitRequest{}); err != nil {
			t.Fatal(err)
		}
		least = min(least, syncs()-before)
	}
	if least != 2 {
		t.Errorf("%d synchronisations at least, want 2", least)
	}
}
