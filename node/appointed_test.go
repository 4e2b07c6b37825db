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

// TestAppointedAtAParticipantThatIsGone: its database is gone for good, so its participant never says how the branch ended. An
// operator does, after the deadline; then nothing is left to be driven, and the participant can be removed.
func TestAppointedAtAParticipantThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			commit, byCall bool
			state          txn.State
			cause          txn.Cause
			summary        string
		}{
			"committed":               {true, false, txn.Committed, 0, "its only branch, which decides, was said to have committed"},
			"rolled back":             {false, false, txn.RolledBack, txn.CauseTimeout, "it was not decided within 10s"},
			"delegated by a call":     {true, true, txn.Committed, 0, "was said to have committed"},
			"delegated by a call, no": {false, true, txn.RolledBack, txn.CauseOperator, "ann asked for it: the disk is lost"},
		} {
			bank := newFakeParticipant()
			dir := t.TempDir()
			n, err := tryOpen(t, dir, slow, with(participantMap{"bank": bank}))
			if err != nil {
				t.Fatal(err)
			}
			var b txn.BeginResult
			if c.byCall {
				b = beginAt(t, n, 10*time.Second, "bank")
				delegate(t, n, b)
			} else {
				b = appoint(t, n, 10*time.Second)
			}
			bank.outage(errRefused)
			word := admin.Resolution{Commit: c.commit, Reason: "the disk is lost", By: "ann"}
			pass(5 * time.Second)
			if c.commit {
				_, err = n.Admin().Resolve(t.Context(), b.ID, word)
				wantErr(t, name+", before the deadline", err, txn.ErrConflict)
			}
			pass(10 * time.Second)
			if err := n.Admin().RemoveParticipant(t.Context(), "bank", "ann", "gone"); !errors.Is(err, txn.ErrConflict) {
				t.Errorf("%s: removed while the branch needs it: %v", name, err)
			}
			e := explained(t, n, b.ID)
			for _, a := range []string{"commit", "rollback"} {
				if a := choice(e, a); !a.Allowed || !strings.Contains(a.Why, "that is then the decision, and a heuristic outcome too") {
					t.Errorf("%s: %+v", name, a)
				}
			}
			for range 2 {
				o, err := n.Admin().Resolve(t.Context(), b.ID, word)
				if err != nil || o.State != c.state || o.Cause != c.cause || o.Heuristic != txn.HeuristicHazard {
					t.Errorf("%s: %+v, %v", name, o, err)
				}
			}
			if err := errors.Join(n.Snapshot(), n.Close()); err != nil {
				t.Fatal(err)
			}
			n = open(t, dir, slow, with(participantMap{"bank": bank}))
			pass(time.Minute)
			s := strings.Join(explained(t, n, b.ID).Summary, "\n")
			if !strings.Contains(s, c.summary) || !strings.Contains(s, "said by ann: the disk is lost") {
				t.Errorf("%s: %s", name, s)
			}
			if k := bank.outcomeLookups(); k != 0 {
				t.Errorf("%s: %d answers of a participant that is gone", name, k)
			}
			err = errors.Join(
				n.Admin().RemoveParticipant(t.Context(), "bank", "ann", "gone"),
				func() error { _, err := n.Admin().Forget(t.Context(), b.ID, "ann", "compared"); return err }(),
			)
			if left, listErr := n.Admin().InDoubts(t.Context()); err != nil || listErr != nil || len(left) != 0 {
				t.Errorf("%s: %v, %v, in doubt: %+v", name, err, listErr, left)
			}
			if err := n.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestAppointedWhoseParticipantIsBack: a participant that can be asked, and proves how the branch ended, is not overruled; and after a
// statement a retry finds the proof.
func TestAppointedWhoseParticipantIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, end := range map[string]participant.BranchOutcome{"as stated": participant.RolledBack, "otherwise": participant.Committed} {
			bank := newFakeParticipant()
			n, err := tryOpen(t, t.TempDir(), slow, with(participantMap{"bank": bank}), func(c *Config) { c.Recovery.BackoffBase, c.Recovery.BackoffMax = time.Hour, time.Hour })
			if err != nil {
				t.Fatal(err)
			}
			b := appoint(t, n, 10*time.Second)
			bank.outage(errRefused)
			pass(15 * time.Second)
			bank.byHand(b.Branches[0].XID, end)
			bank.outage(nil)
			word := admin.Resolution{Reason: "the disk is lost", By: "ann"}
			_, err = n.Admin().Resolve(t.Context(), b.ID, word)
			wantErr(t, name, err, txn.ErrConflict, "there is proof that it ended")

			bank.outage(errRefused)
			if _, err := n.Admin().Resolve(t.Context(), b.ID, word); err != nil {
				t.Error(err)
			}
			bank.outage(nil)
			if err := n.Admin().Retry(t.Context(), b.ID); err != nil {
				t.Error(err)
			}
			want := txn.Heuristic(0)
			if end == participant.Committed {
				want = txn.HeuristicCommit
			}
			if info, err := n.Get(t.Context(), b.ID); err != nil || info.State != txn.RolledBack || info.Heuristic != want {
				t.Errorf("%s: %v, heuristic %q, %v", name, info.State, info.Heuristic, err)
			}
			if err := n.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}
