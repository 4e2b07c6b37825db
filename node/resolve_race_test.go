package node

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// TestResolveBesideACommit: an operator rolls an undecided transaction back at the moment at which
// its application commits. One of them succeeds; the operator's late call is not a resolution of
// branches that the coordinator has yet to commit.
func TestResolveBesideACommit(t *testing.T) {
	desks := participantMap{"bank": newFakeParticipant(), "stock": newFakeParticipant()}
	n := open(t, t.TempDir(), with(desks))
	for range 300 {
		b := beginAt(t, n, time.Minute, "bank", "stock")
		for i, name := range []string{"bank", "stock"} {
			desks[name].(*fakeParticipant).prepare(b.Branches[i].XID)
		}
		var both sync.WaitGroup
		var commit, resolve error
		both.Go(func() { _, commit = n.Commit(t.Context(), b.ID, txn.CommitRequest{Votes: prepared(2)}) })
		both.Go(func() { _, resolve = n.Admin().Resolve(t.Context(), b.ID, admin.Resolution{Reason: "stuck"}) })
		both.Wait()
		info := finished(t, n, b.ID)
		if info.Heuristic != 0 || info.State.Commits() != (commit == nil) || info.State.Commits() != errors.Is(resolve, txn.ErrConflict) {
			t.Fatalf("commit: %v; resolve: %v; %v, heuristic %q: %+v", commit, resolve, info.State, info.Heuristic, info.Branches)
		}
	}
}
