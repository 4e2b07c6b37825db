package postgres

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/postgres/internal/markertable"
	"github.com/txmgr/txmgr/txn"
)

// wantRead wants an outcome from ReadOutcome; zero: it is not known.
func wantRead(t *testing.T, p participant.Participant, br participant.Branch, want participant.BranchOutcome) {
	t.Helper()
	r, known, err := p.(participant.OutcomeReader).ReadOutcome(t.Context(), br)
	if err != nil || r.Outcome != want || known != (want != 0) {
		t.Errorf("read as %v (%s), known %v, %v; want %v", r.Outcome, r.Detail, known, err, want)
	}
}

// committedAlone commits a branch in one phase.
func (b *bank) committedAlone(t *testing.T, id string) participant.Branch {
	t.Helper()
	br, done := b.alone(t, "INSERT INTO account VALUES ($1, 1)", id)
	if state, err := br.CommitOnePhase(t.Context()); state != txn.BranchCommitted {
		t.Fatal(state, err)
	}
	br.Release()
	return done
}

// TestReadOutcomeTakesOnlyARowForProof: neither a number nor a missing row, and a barrier only if no
// row can have been removed before.
func TestReadOutcomeTakesOnlyARowForProof(t *testing.T) {
	bank := newBank(t)
	p := bank.opened(t, nil)
	without, br := bank.alone(t, "SELECT 1")
	check(t, without.Rollback(t.Context()))
	without.Release()
	wantRead(t, p, br, 0) // it wrote no row
	bank.withMarkers(t)
	var open *branch
	open, br = bank.alone(t, "SELECT 1")
	wantRead(t, p, br, 0)
	if kind := bank.markerKind(t, br.XID); kind != markertable.None {
		t.Errorf("reading has written a row: kind %d", kind)
	}
	wantResolved(t, p, br, participant.RolledBack, "a barrier is in")
	open.Release()
	wantRead(t, p, br, participant.RolledBack)
	br.BeforeRestore = true
	wantRead(t, p, br, 0)
	done := bank.committedAlone(t, "alice")
	done.BeforeRestore = true
	wantRead(t, p, done, participant.Committed)
	wantRead(t, bank.opened(t, map[string]string{"commit_marker": "off"}), done, 0)
	bank.exec(t, "DELETE FROM txmgr_branch")
	done.BeforeRestore = false
	for range 2 { // the first call has not written a barrier
		wantRead(t, p, done, 0)
	}
}

// TestReadOutcomeWaitsForNoTransaction: neither one that has the branch's row locked, nor the branch's
// own.
func TestReadOutcomeWaitsForNoTransaction(t *testing.T) {
	bank := newBank(t).withMarkers(t)
	p := bank.opened(t, nil)
	done := bank.committedAlone(t, "alice")
	locked, err := bank.pool.Begin(t.Context())
	check(t, err)
	_, err = locked.Exec(t.Context(), "SELECT FROM txmgr_branch WHERE xid = $1 FOR UPDATE", done.XID)
	check(t, err)
	open, br := bank.alone(t, "INSERT INTO account VALUES ('bob', 1)")
	begun := time.Now()
	wantRead(t, p, done, 0)
	wantRead(t, p, br, 0)
	if d := time.Since(begun); d > 20*time.Second {
		t.Errorf("took %v", d)
	}
	check(t, locked.Rollback(t.Context()))
	wantRead(t, p, done, participant.Committed)
	if state, err := open.CommitOnePhase(t.Context()); state != txn.BranchCommitted {
		t.Errorf("it was disturbed: %v, %v", state, err)
	}
	open.Release()
	wantRead(t, p, br, participant.Committed)
}

// TestReadOutcomeFromAnotherTable is an error: the row would be missing for ever.
func TestReadOutcomeFromAnotherTable(t *testing.T) {
	bank := newBank(t).withMarkers(t)
	done := bank.committedAlone(t, "alice")
	want := func(p participant.Participant, says string) {
		t.Helper()
		r, known, err := p.(participant.OutcomeReader).ReadOutcome(t.Context(), done)
		if known || err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, known %v, %v; want %s", r, known, err, says)
		}
	}
	want(newBank(t).withMarkers(t).opened(t, nil), "register the database that it uses")
	p := bank.opened(t, nil)
	bank.exec(t, "DROP TABLE txmgr_branch")
	want(p, "or the table was dropped")
	bank.withMarkers(t)
	want(p, "or the table was dropped since")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, known, err := p.(participant.OutcomeReader).ReadOutcome(ctx, done); known || err == nil {
		t.Errorf("known %v, %v although the context has ended", known, err)
	}
}
