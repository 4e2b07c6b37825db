package node

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/recovery"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// appoint begins a transaction whose only branch, at bank, decides.
func appoint(t *testing.T, n *Node, timeout time.Duration) txn.BeginResult {
	t.Helper()
	b, err := n.Begin(t.Context(), txn.Options{Timeout: timeout, Branches: []txn.Enlistment{{Participant: "bank", SessionRef: "s", Decides: true}}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestAppointedIsResolvedAtTheDeadline: the report was lost, or the application died before its commit. The participant is
// asked at the deadline, and not before, also after a restart from a snapshot.
func TestAppointedIsResolvedAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			end   participant.BranchOutcome
			state txn.State
			cause txn.Cause
		}{
			"had committed":     {participant.Committed, txn.Committed, 0},
			"had not committed": {0, txn.RolledBack, txn.CauseTimeout},
		} {
			dir, bank := t.TempDir(), newFakeParticipant()
			n, err := tryOpen(t, dir, slow, with(participantMap{"bank": bank}))
			if err != nil {
				t.Fatal(err)
			}
			b := appoint(t, n, 10*time.Second)
			if c.end != 0 {
				bank.byHand(b.Branches[0].XID, c.end)
			}
			pass(5 * time.Second)
			e, err := n.Admin().Explain(t.Context(), b.ID)
			if err != nil || !strings.Contains(strings.Join(e.Summary, "\n"), "its only branch decides") || !choice(e, "rollback").Allowed || choice(e, "retry").Allowed {
				t.Errorf("%s: %+v, %v", name, e, err)
			}
			if err := errors.Join(n.Snapshot(), n.Close()); err != nil {
				t.Fatal(err)
			}
			n = open(t, dir, slow, with(participantMap{"bank": bank}))
			if k := bank.outcomeLookups(); k != 0 {
				t.Errorf("%s: asked %d times before the deadline", name, k)
			}
			if info := finished(t, n, b.ID); info.State != c.state || info.Cause != c.cause || info.Heuristic != 0 || bank.outcomeLookups() != 1 {
				t.Errorf("%s: %v by %v, asked %d times", name, info.State, info.Cause, bank.outcomeLookups())
			}
		}
	})
}

// TestRollbackOfAnAppointed: a caller that wants it rolled back waits until the participant has said how the branch ended, and gets
// the truth. The application's own no needs no such question.
func TestRollbackOfAnAppointed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bank := newFakeParticipant()
		n := open(t, t.TempDir(), slow, with(participantMap{"bank": bank}))

		committed := appoint(t, n, time.Hour)
		bank.byHand(committed.Branches[0].XID, participant.Committed)
		o, err := n.Rollback(t.Context(), committed.ID, "enough")
		wantErr(t, "of one that has committed", err, txn.ErrConflict, "decided to commit")
		if !o.State.Commits() {
			t.Errorf("%+v", o)
		}

		open := appoint(t, n, time.Hour)
		bank.outage(errors.New("away"))
		went := make(chan error, 1)
		go func() {
			o, err := n.Rollback(t.Context(), open.ID, "enough")
			if err == nil && (o.State.Commits() || o.Cause != txn.CauseClient) {
				t.Errorf("%+v", o)
			}
			went <- err
		}()
		pass(time.Second)
		_, err = n.Enlist(t.Context(), open.ID, txn.Enlistment{Participant: "bank", SessionRef: "s", Revokes: true})
		wantErr(t, "a revocation", err, txn.ErrConflict, "delegated")
		_, err = n.Extend(t.Context(), open.ID, 2*time.Hour)
		wantErr(t, "an extension", err, txn.ErrConflict, "delegated")
		select {
		case err := <-went:
			t.Errorf("it was answered although the participant had not said how the branch ended: %v", err)
		default:
		}
		bank.outage(nil)
		if err := <-went; err != nil {
			t.Error(err)
		}

		own := appoint(t, n, time.Hour)
		asked := bank.outcomeLookups()
		o, err = n.Vote(t.Context(), own.ID, txn.Votes{Votes: []txn.BranchVote{{Branch: 1, Vote: txn.VoteNo}}, Reason: "changed its mind"})
		if err != nil || o.State != txn.RolledBack || o.Cause != txn.CauseClient || bank.outcomeLookups() != asked {
			t.Errorf("%+v, %v, asked %d times", o, err, bank.outcomeLookups()-asked)
		}

		operator := appoint(t, n, time.Hour)
		if _, err := n.Admin().Resolve(t.Context(), operator.ID, admin.Resolution{Reason: "stuck", By: "ann"}); err != nil {
			t.Error(err)
		}
		if info := finished(t, n, operator.ID); info.State != txn.RolledBack || info.Cause != txn.CauseOperator {
			t.Errorf("%v by %v", info.State, info.Cause)
		}
	})
}

// TestAppointmentOfAnOldID: a begin that comes so late that the row which proves the end of its branch may have been removed is
// refused, also when the log's ticks stood still meanwhile; one that is repeated is answered.
func TestAppointmentOfAnOldID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := open(t, t.TempDir(), slow, with(participantMap{"bank": newFakeParticipant()}), func(c *Config) { c.Retention = time.Hour })
		mark := appoint(t, n, time.Second).Mark
		begin := func(age time.Duration) error {
			o := txn.Options{ID: txn.NewID(time.Now().Add(-age), [9]byte{7}), Mark: mark, Timeout: time.Minute}
			o.Branches = []txn.Enlistment{{Participant: "bank", SessionRef: "s", Decides: true}}
			_, err := n.Begin(t.Context(), o)
			return err
		}
		if err := begin(59 * time.Minute); err != nil {
			t.Error(err)
		}
		wantErr(t, "an old one", begin(time.Hour), txn.ErrForgotten)
		if recovery.ClockSlack < time.Second {
			t.Error("the row is removed when the begin may still be accepted")
		}
	})
}

// TestOneBranchOfALedgerWaitsForNothing: the whole way on a real node: nothing is waited for, and the log has the outcome
// soon afterwards.
func TestOneBranchOfALedgerWaitsForNothing(t *testing.T) {
	n, bank, _ := withLedgers(t)
	var tx *txn.Tx
	err := txn.Run(t.Context(), n, txn.Options{Name: "pay"}, func(ctx context.Context, now *txn.Tx) error {
		tx = now
		return bank.Add(ctx, now, "a", -10)
	})
	if err != nil {
		t.Fatal(err)
	}
	info := finished(t, n, tx.ID())
	if info.State != txn.Committed || info.Branches[0].Vote != txn.VoteDelegated {
		t.Errorf("%+v", info)
	}
	if b, err := bank.Balances(t.Context()); err != nil || b["a"] != 90 {
		t.Errorf("%v, %v; want 90", b, err)
	}
}
