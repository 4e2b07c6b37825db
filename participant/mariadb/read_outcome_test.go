package mariadb

import (
	"strings"
	"testing"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// wantRead wants an outcome from ReadOutcome; zero: it is not known.
func wantRead(t *testing.T, r *resourceManager, br participant.Branch, want participant.BranchOutcome) {
	t.Helper()
	res, known, err := r.ReadOutcome(t.Context(), br)
	if err != nil || res.Outcome != want || known != (want != 0) {
		t.Errorf("read as %v (%s), known %v, %v; want %v", res.Outcome, res.Detail, known, err, want)
	}
}

// alone begins a branch and runs a statement in it; it returns the application's side and the
// coordinator's.
func (b *bank) alone(t *testing.T, query string, args ...any) (*branch, participant.Branch) {
	t.Helper()
	br := newName()
	w := b.work(t, br.XID, query, args...)
	br.SessionRef = w.sessionRef.String()
	return w, br
}

// committedAlone commits a branch in one phase.
func (b *bank) committedAlone(t *testing.T, id string) participant.Branch {
	t.Helper()
	w, br := b.alone(t, "INSERT INTO account VALUES (?, 1)", id)
	if state, err := w.CommitOnePhase(t.Context()); state != txn.BranchCommitted {
		t.Fatal(state, err)
	}
	w.Release()
	return br
}

// TestReadOutcomeTakesOnlyARowForProof: a missing row proves nothing, and a barrier only if no row
// can have been removed before.
func TestReadOutcomeTakesOnlyARowForProof(t *testing.T) {
	bank := newBank(t)
	r := bank.opened(t, nil)
	open, br := bank.alone(t, "SELECT 1")
	wantRead(t, r, br, 0)
	var rows int
	check(t, bank.pool.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM txmgr_branch").Scan(&rows))
	if rows != 0 {
		t.Error("reading has written a row")
	}
	res, err := r.ResolveOutcome(t.Context(), br)
	wantEnd(t, res, err, participant.RolledBack)
	open.Release()
	wantRead(t, r, br, participant.RolledBack)
	br.BeforeRestore = true
	wantRead(t, r, br, 0)
	done := bank.committedAlone(t, "alice")
	done.BeforeRestore = true
	wantRead(t, r, done, participant.Committed)
	wantRead(t, bank.opened(t, map[string]string{"commit_marker": "off"}), done, 0)
	bank.exec(t, "DELETE FROM txmgr_branch")
	done.BeforeRestore = false
	for range 2 { // the first call has not written a barrier
		wantRead(t, r, done, 0)
	}
}

// TestReadOutcomeWaitsForNoTransaction: neither one that has the branch's row locked, nor the branch's
// own.
func TestReadOutcomeWaitsForNoTransaction(t *testing.T) {
	bank := newBank(t)
	r := bank.opened(t, nil)
	done := bank.committedAlone(t, "alice")
	locked, err := bank.pool.BeginTx(t.Context(), nil)
	check(t, err)
	_, err = locked.ExecContext(t.Context(), "UPDATE txmgr_branch SET at = NOW() WHERE xid = ?", done.XID)
	check(t, err)
	open, br := bank.alone(t, "INSERT INTO account VALUES ('bob', 1)")
	begun := time.Now()
	wantRead(t, r, done, 0)
	wantRead(t, r, br, 0)
	if d := time.Since(begun); d > 20*time.Second {
		t.Errorf("took %v", d)
	}
	check(t, locked.Rollback())
	wantRead(t, r, done, participant.Committed)
	if state, err := open.CommitOnePhase(t.Context()); state != txn.BranchCommitted {
		t.Errorf("it was disturbed: %v, %v", state, err)
	}
	open.Release()
	wantRead(t, r, br, participant.Committed)
}

// TestReadOutcomeFromAnotherTable is an error: the row would be missing for ever.
func TestReadOutcomeFromAnotherTable(t *testing.T) {
	bank, other := newBank(t), newBank(t)
	done := bank.committedAlone(t, "alice")
	want := func(r *resourceManager, says string) {
		t.Helper()
		res, known, err := r.ReadOutcome(t.Context(), done)
		if known || err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, known %v, %v; want %s", res, known, err, says)
		}
	}
	check(t, other.opened(t, nil).Check(t.Context()))
	want(other.opened(t, nil), "register the database that it uses")
	bank.exec(t, "DROP TABLE txmgr_branch")
	want(bank.opened(t, nil), "the table was dropped since")
	want(bank.opened(t, nil), "the table was dropped since")
}
