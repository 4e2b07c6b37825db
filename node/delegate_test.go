package node

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

func delegate(t *testing.T, n *Node, b txn.BeginResult) {
	t.Helper()
	if o, err := n.Delegate(t.Context(), b.ID, 1); err != nil || o.State != txn.Preparing {
		t.Fatalf("delegate: %+v, %v", o, err)
	}
}

func TestOnlyTheBranchDecidesWhatWasDelegated(t *testing.T) {
	n := open(t, t.TempDir(), with(participantMap{"bank": newFakeParticipant(), "stock": newFakeParticipant()}))
	ctx := t.Context()
	b := beginAt(t, n, time.Minute, "bank")
	delegate(t, n, b)
	delegate(t, n, b) // repeated
	_, err := n.Commit(ctx, b.ID, txn.CommitRequest{Votes: prepared(1)})
	wantErr(t, "commit", err, txn.ErrConflict, "delegated to branch b1")
	_, err = n.Rollback(ctx, b.ID, "")
	wantErr(t, "rollback", err, txn.ErrConflict, "delegated")
	_, err = n.Vote(ctx, b.ID, txn.Votes{Votes: prepared(1)})
	wantErr(t, "vote", err, txn.ErrConflict, "delegated")
	_, err = n.Extend(ctx, b.ID, time.Hour)
	wantErr(t, "extend", err, txn.ErrConflict, "delegated")
	_, err = n.Enlist(ctx, b.ID, txn.Enlistment{Participant: "stock"})
	wantErr(t, "enlist", err, txn.ErrConflict, "delegated")
	_, err = n.Admin().Resolve(ctx, b.ID, admin.Resolution{Reason: "I know it"})
	wantErr(t, "resolve", err, txn.ErrConflict, "delegated")
	if err := n.ReportCompletion(ctx, b.ID, txn.CompletionReport{Branch: 1, State: txn.BranchCommitted}); err != nil {
		t.Fatal(err)
	}
	info, err := n.Get(ctx, b.ID)
	if err != nil || info.State != txn.Committed || info.DecidedIndex == 0 || info.Decided.IsZero() {
		t.Errorf("%+v, %v", info, err)
	}

	two := beginAt(t, n, time.Minute, "bank", "stock")
	_, err = n.Delegate(ctx, two.ID, 1)
	wantErr(t, "delegating one of two", err, txn.ErrConflict, "one branch")
	if _, err := n.Rollback(ctx, two.ID, ""); err != nil {
		t.Fatal(err)
	}
}

// TestDelegatedIsResolvedAtTheDeadline: the application has committed its only branch, or has not,
// and does not report it. At the deadline the participant is asked.
func TestDelegatedIsResolvedAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			end   participant.BranchOutcome
			state txn.State
		}{
			"had committed":     {participant.Committed, txn.Committed},
			"had not committed": {0, txn.RolledBack},
		} {
			bank := newFakeParticipant()
			n := open(t, t.TempDir(), slow, with(participantMap{"bank": bank}))
			start := time.Now()
			b := beginAt(t, n, 10*time.Second, "bank")
			delegate(t, n, b)
			if c.end != 0 {
				bank.byHand(b.Branches[0].XID, c.end)
			}
			pass(5 * time.Second)
			err := n.Admin().Retry(t.Context(), b.ID)
			wantErr(t, name+": retry before the deadline", err, txn.ErrConflict)
			if err := n.Admin().Retry(t.Context(), txn.ID{}); err != nil {
				t.Error(err)
			}
			pass(4900 * time.Millisecond)
			if k := bank.outcomeLookups(); k != 0 {
				t.Errorf("%s: asked %d times before the deadline", name, k)
			}
			info := finished(t, n, b.ID)
			if took := time.Since(start); took < 10*time.Second || took > 10200*time.Millisecond {
				t.Errorf("%s: settled after %v", name, took)
			}
			if info.State != c.state || info.Heuristic != 0 || bank.outcomeLookups() != 1 {
				t.Errorf("%s: %v, heuristic %v, asked %d times", name, info.State, info.Heuristic, bank.outcomeLookups())
			}
		}
	})
}

// TestOnePhaseOnALedger: an application commits its only branch in one phase, and another one
// crashes before it does.
func TestOnePhaseOnALedger(t *testing.T) {
	n, bank, _ := withLedgers(t)
	ctx := t.Context()
	var id txn.ID
	err := txn.Run(ctx, n, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
		id = tx.ID()
		return bank.Add(ctx, tx, "a", -10)
	})
	if err != nil {
		t.Fatal(err)
	}
	if info := finished(t, n, id); info.State != txn.Committed || info.Branches[0].Vote != txn.VoteDelegated {
		t.Errorf("%+v", info)
	}
	gone := beginAt(t, n, 300*time.Millisecond, "bank")
	delegate(t, n, gone)
	if info := finished(t, n, gone.ID); info.State != txn.RolledBack || info.Cause != txn.CauseVoteNo || info.Heuristic != 0 {
		t.Errorf("%+v", info)
	}
	if b, err := bank.Balances(ctx); err != nil || b["a"] != 90 {
		t.Errorf("%v, %v; want 90", b, err)
	}
}

// TestDelegatedSurvivesARestart: the new leader waits for the deadline and asks the participant.
func TestDelegatedSurvivesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, bank := t.TempDir(), newFakeParticipant()
		n, err := tryOpen(t, dir, slow, with(participantMap{"bank": bank}))
		if err != nil {
			t.Fatal(err)
		}
		b := beginAt(t, n, 20*time.Second, "bank")
		delegate(t, n, b)
		bank.byHand(b.Branches[0].XID, participant.Committed)
		if err := n.Snapshot(); err != nil {
			t.Fatal(err)
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		n = open(t, dir, slow, with(participantMap{"bank": bank}))
		e, err := n.Admin().Explain(t.Context(), b.ID)
		if err != nil || !strings.Contains(strings.Join(e.Summary, "\n"), "delegated to b1 at bank") || choice(e, "rollback").Allowed || choice(e, "retry").Allowed {
			t.Errorf("%+v, %v", e, err)
		}
		if info := finished(t, n, b.ID); info.State != txn.Committed {
			t.Errorf("%v by %v", info.State, info.Cause)
		}
	})
}

// TestRestartLosesAtMostACheckpointOfADelegation: the time until the participant is asked is
// counted like that of a deadline, although no transaction is in the survival index.
func TestRestartLosesAtMostACheckpointOfADelegation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, bank := t.TempDir(), newFakeParticipant()
		n, err := tryOpen(t, dir, slow, with(participantMap{"bank": bank}))
		if err != nil {
			t.Fatal(err)
		}
		b := beginAt(t, n, time.Minute, "bank")
		delegate(t, n, b)
		pass(45 * time.Second)
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		n = open(t, dir, slow, with(participantMap{"bank": bank}))
		finished(t, n, b.ID)
		if took := 45*time.Second + time.Since(start); took < time.Minute || took > time.Minute+11*time.Second {
			t.Errorf("settled after %v", took)
		}
	})
}

// TestDelegatedWithoutAnAnswerIsInDoubt: a delegated transaction is in doubt while its
// participant is unavailable, and when the participant does not know the outcome.
func TestDelegatedWithoutAnAnswerIsInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bank := newFakeParticipant()
		n := open(t, t.TempDir(), slow, with(participantMap{"bank": bank}))
		b := beginAt(t, n, 10*time.Second, "bank")
		delegate(t, n, b)
		bank.outage(errRefused)
		pass(9 * time.Second)
		if ds, err := n.Admin().InDoubts(t.Context()); err != nil || len(ds) != 0 {
			t.Errorf("before the deadline: %+v, %v", ds, err)
		}
		pass(2 * time.Second)
		ds, err := n.Admin().InDoubts(t.Context())
		if err != nil || len(ds) != 1 || ds[0].ID != b.ID || !strings.Contains(ds[0].Why, "bank: resolve outcome: connection refused (attempt ") {
			t.Errorf("after it: %+v, %v", ds, err)
		}
		bank.byHand(b.Branches[0].XID, participant.Unknown)
		bank.outage(nil)
		if err := n.Admin().Retry(t.Context(), b.ID); err != nil {
			t.Error(err)
		}
		info := finished(t, n, b.ID)
		if info.State != txn.RolledBack || info.Heuristic != txn.HeuristicHazard {
			t.Errorf("%v, heuristic %v", info.State, info.Heuristic)
		}
		bank.byHand(b.Branches[0].XID, participant.RolledBack)
		if err := n.Admin().Retry(t.Context(), b.ID); err != nil {
			t.Errorf("asking for the proof once more: %v", err)
		}
		if info, err := n.Get(t.Context(), b.ID); err != nil || info.Heuristic != 0 {
			t.Errorf("with proof: heuristic %v, %v", info.Heuristic, err)
		}
	})
}
