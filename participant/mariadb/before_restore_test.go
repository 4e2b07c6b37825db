package mariadb

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// TestPrunedRowAfterARestore: a branch was committed and its row removed, by a coordinator that was then
// restored from a backup in which the branch has not ended. It must not be reported as rolled back, nor
// when a call has written a barrier.
func TestPrunedRowAfterARestore(t *testing.T) {
	bank := newBank(t)
	r := bank.opened(t, nil)
	pruned := func(account string, onePhase bool) participant.Branch {
		t.Helper()
		br := newName()
		if onePhase {
			w := bank.work(t, br.XID, "INSERT INTO account VALUES (?, 1)", account)
			br.SessionRef = w.sessionRef.String()
			if end, err := w.CommitOnePhase(t.Context()); end != txn.BranchCommitted {
				t.Fatal(end, err)
			}
			w.Release()
		} else {
			br = bank.prepared(t, "INSERT INTO account VALUES (?, 1)", account)
			res, err := r.Commit(t.Context(), br)
			wantEnd(t, res, err, participant.Committed)
		}
		over := func(_ context.Context, xids []string) ([]bool, error) {
			return slices.Repeat([]bool{true}, len(xids)), nil
		}
		if n, err := r.Prune(t.Context(), 1, over); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		br.BeforeRestore = true
		return br
	}
	wantUnknown := func(what string, res participant.Result, err error) {
		t.Helper()
		if err != nil || res.Outcome != participant.Unknown || !strings.Contains(res.Detail, "restored from a backup") || !strings.Contains(res.Detail, "its row in txmgr_branch was removed") {
			t.Errorf("%s: %v, %v", what, res, err)
		}
	}
	for name, vote := range map[string]txn.Vote{"no vote in the backup": 0, "voted": txn.VotePrepared, "delegated": txn.VoteDelegated} {
		for verb, do := range map[string]verb{"commit": r.Commit, "rollback": r.Rollback, "resolve": r.ResolveOutcome} {
			account := name + ", " + verb
			br := pruned(account, vote == txn.VoteDelegated)
			br.Vote = vote
			for _, again := range []string{"", ", again"} {
				seen, err := r.Inspect(t.Context(), br)
				wantUnknown(account+", inspected"+again, participant.Result{Outcome: seen.Outcome, Detail: seen.Detail}, err)
				res, err := do(t.Context(), br)
				wantUnknown(account+again, res, err)
			}
			if n := bank.balance(t, account); n != 1 {
				t.Errorf("%s: %d", account, n)
			}
			bank.exec(t, "DELETE FROM txmgr_branch") // the barrier
		}
	}
	off := bank.opened(t, map[string]string{"commit_marker": "off"})
	br := pruned("no table", false)
	br.Vote = 0
	res, err := off.Rollback(t.Context(), br)
	wantEnd(t, res, err, participant.Unknown)
	br.SessionRef = ""
	res, err = r.Rollback(t.Context(), br)
	wantEnd(t, res, err, participant.Unknown)
}

// TestProofAfterARestore: what proves the end of a branch does so after a restore, too.
func TestProofAfterARestore(t *testing.T) {
	bank := newBank(t)
	r := bank.opened(t, nil)
	prepared := func(account string) participant.Branch {
		br := bank.prepared(t, "INSERT INTO account VALUES (?, 1)", account)
		br.BeforeRestore = true
		return br
	}
	br := prepared("commit")
	for range 2 { // then the row is there
		res, err := r.Commit(t.Context(), br)
		wantEnd(t, res, err, participant.Committed)
	}
	for _, do := range []verb{r.Rollback, r.ResolveOutcome} {
		res, err := do(t.Context(), br)
		wantEnd(t, res, err, participant.Committed)
	}
	br = prepared("rollback")
	res, err := r.Rollback(t.Context(), br)
	wantEnd(t, res, err, participant.RolledBack)

	// An open branch has its row locked, which was not removed then.
	for name, do := range map[string]verb{"open, rollback": r.Rollback, "open, resolve": r.ResolveOutcome} {
		br := newName()
		w := bank.work(t, br.XID, "INSERT INTO account VALUES (?, 1)", name)
		br.SessionRef, br.BeforeRestore = w.sessionRef.String(), true
		res, err := do(t.Context(), br)
		if err != nil || res.Outcome != participant.RolledBack {
			t.Errorf("%s: %v, %v", name, res, err)
		}
		w.Release()
		if n := bank.balance(t, name); n != 0 {
			t.Errorf("%s: %d", name, n)
		}
	}
}
