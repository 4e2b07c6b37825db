package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// TestRestoreTheCoordinatorFromYesterdaysCopy: a transaction was decided to commit,
// and one of its branches has committed, after the copy was made. The log knows
// nothing of it any more: the other branch must not be rolled back.
func TestRestoreTheCoordinatorFromYesterdaysCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, copied := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "copy")
		desks := participantMap{"a": newFakeParticipant(), "b": newFakeParticipant()}
		stopped := func(work func(*Node)) {
			t.Helper()
			n, err := tryOpen(t, dir, with(desks))
			if err != nil {
				t.Fatal(err)
			}
			work(n)
			if err := n.Close(); err != nil {
				t.Fatal(err)
			}
		}
		stopped(func(*Node) {})
		if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		var begun txn.BeginResult
		stopped(func(n *Node) {
			begun = beginAt(t, n, time.Minute, "a", "b")
			c := txn.CommitRequest{ClientCompletes: true}
			for i, name := range []string{"a", "b"} {
				desks[name].(*fakeParticipant).prepare(begun.Branches[i].XID)
				c.Votes = append(c.Votes, txn.BranchVote{Branch: begun.Branches[i].ID, Vote: txn.VotePrepared})
			}
			if _, err := n.Commit(t.Context(), begun.ID, c); err != nil {
				t.Fatal(err)
			}
			desks["a"].(*fakeParticipant).byHand(begun.Branches[0].XID, participant.Committed)
		})
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(dir, os.DirFS(copied)); err != nil {
			t.Fatal(err)
		}
		n := open(t, dir, with(desks))
		<-time.After(time.Minute) // many sweeps
		found, err := n.Admin().Scan(t.Context(), "", true)
		if err != nil || len(found) != 1 || found[0].Class != "leave" || !strings.Contains(found[0].Error, "restored from an old copy") {
			t.Errorf("%+v, %v", found, err)
		}
		if left, err := desks["b"].Prepared(t.Context(), ""); err != nil || len(left) != 1 {
			t.Errorf("prepared at b: %v, %v", left, err)
		}
	})
}
