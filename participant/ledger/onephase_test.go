package ledger

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// alone is a resource that can commit in one phase, and its branch.
func alone(t *testing.T, path, statements string) (*branchTx, participant.Branch) {
	t.Helper()
	xid := txn.ClusterPrefix("test") + strings.ReplaceAll(t.Name(), "/", "_") + statements
	var info string
	s, err := enlistBranch(t.Context(), newStore(path), func(_ context.Context, session string, _ []byte) (txn.Branch, error) {
		info = session
		return txn.Branch{ID: 1, XID: xid}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	do(t, s, statements)
	return s, participant.Branch{XID: xid, SessionRef: info}
}

func wantResolved(t *testing.T, path string, b participant.Branch, want participant.BranchOutcome) {
	t.Helper()
	if r, err := openParticipant(t, path).(participant.OutcomeResolver).ResolveOutcome(t.Context(), b); err != nil || r.Outcome != want {
		t.Errorf("settled as %v, %v; want %v", r, err, want)
	}
}

func TestOnePhaseCommitRefusesWhatPrepareWould(t *testing.T) {
	for name, c := range map[string]struct{ work, before, why string }{
		"overdraws":            {"add alice -101", "", "would go below zero"},
		"read what changed":    {"get alice; add bob 1", "add alice 1", "has changed since it was read"},
		"meets a lock":         {"add alice 1", "lock", "locked by the prepared branch other"},
		"is fine":              {"move alice bob 40", "add alice 1", ""},
		"sets, whatever it is": {"set alice 7", "set alice 3", ""},
	} {
		t.Run(name, func(t *testing.T) {
			l, path := newLedger(t)
			local(t, l, "set alice 100")
			s, b := alone(t, path, c.work)
			if c.before == "lock" {
				other := newBranchTx(newStore(path), "other")
				do(t, other, "add alice 1")
				if vote, err := other.Prepare(t.Context()); vote != txn.VotePrepared {
					t.Fatal(vote, err)
				}
			} else if c.before != "" {
				local(t, l, c.before)
			}
			state, err := s.CommitOnePhase(t.Context())
			switch {
			case c.why == "" && (state != txn.BranchCommitted || err != nil):
				t.Errorf("%v, %v", state, err)
			case c.why != "" && (state != txn.BranchRolledBack || err == nil || !strings.Contains(err.Error(), c.why)):
				t.Errorf("%v, %v; want rolled back: %s", state, err, c.why)
			}
			want := participant.Committed
			if c.why != "" {
				want = participant.RolledBack
			}
			wantResolved(t, path, b, want)
			if _, err := s.do(t.Context(), statement{"add", []string{"alice"}, 1}); !errors.Is(err, txn.ErrNotActive) {
				t.Errorf("work after the end: %v", err)
			}
		})
	}
}

func TestOnePhaseOnlyWhereThereIsSomethingToProve(t *testing.T) {
	l, path := newLedger(t)
	local(t, l, "set alice 100")
	s, _ := alone(t, path, "get alice")
	if s.OnePhase() {
		t.Error("a session that only read can")
	}
	do(t, s, "add alice 1")
	if !s.OnePhase() {
		t.Error("a session that changed something cannot")
	}
	if vote, err := s.Prepare(t.Context()); vote != txn.VotePrepared {
		t.Fatal(vote, err)
	}
	if s.OnePhase() {
		t.Error("what is prepared can")
	}
	if state, err := newBranchTx(newStore(path), s.xid).CommitOnePhase(t.Context()); state != 0 || err == nil {
		t.Errorf("another session of a prepared branch: %v, %v", state, err)
	}
	if err := s.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
	if newBranchTx(newStore(path), "x").OnePhase() {
		t.Error("a session that does not know when it began can")
	}
}

// forget makes the ledger forget all outcomes.
func forget(t *testing.T, l *Ledger) {
	t.Helper()
	err := l.store.update(t.Context(), func(tx *bbolt.Tx) error {
		for n := 0; ; n++ {
			if forgot, err := forgetOldest(tx, 0, time.Now().Add(2*maxOutcomeAge)); err != nil || !forgot {
				return err
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestForgottenEndsProveNothing: neither a commit that was forgotten nor a resolved outcome may
// turn into the other.
func TestForgottenEndsProveNothing(t *testing.T) {
	l, path := newLedger(t)
	done, doneBranch := alone(t, path, "add alice 1")
	if state, err := done.CommitOnePhase(t.Context()); state != txn.BranchCommitted {
		t.Fatal(state, err)
	}
	hangs, hangsBranch := alone(t, path, "add alice 2")
	other, otherBranch := alone(t, path, "add alice 4")
	wantResolved(t, path, hangsBranch, participant.RolledBack)
	forget(t, l)
	wantResolved(t, path, doneBranch, participant.Unknown)
	wantResolved(t, path, hangsBranch, participant.Unknown)
	wantResolved(t, path, participant.Branch{XID: doneBranch.XID}, participant.Unknown)
	for _, s := range []*branchTx{hangs, other} {
		if state, err := s.CommitOnePhase(t.Context()); state != txn.BranchRolledBack || !strings.Contains(err.Error(), "may have been forgotten") {
			t.Errorf("%v, %v", state, err)
		}
	}
	wantResolved(t, path, otherBranch, participant.Unknown)
	told, err := openParticipant(t, path).(participant.Inspector).Inspect(t.Context(), doneBranch)
	if err != nil || told.Outcome != participant.Unknown {
		t.Errorf("%+v, %v", told, err)
	}
	young, youngBranch := alone(t, path, "add alice 8") // it began after all outcomes that were forgotten
	if state, err := young.CommitOnePhase(t.Context()); state != txn.BranchCommitted {
		t.Errorf("%v, %v", state, err)
	}
	wantResolved(t, path, youngBranch, participant.Committed)
	if n, err := l.Total(t.Context()); n != 9 || err != nil {
		t.Errorf("alice has %d, %v", n, err)
	}
}

// TestForgottenEndsAfterARestore: a rollback by a coordinator that was restored from a backup takes a branch to
// be rolled back only if no end has been forgotten since it began.
func TestForgottenEndsAfterARestore(t *testing.T) {
	l, path := newLedger(t)
	rollback := func(b participant.Branch, want participant.BranchOutcome) {
		t.Helper()
		b.BeforeRestore = true
		for range 2 {
			if r, err := openParticipant(t, path).Rollback(t.Context(), b); err != nil || r.Outcome != want {
				t.Errorf("%v, %v; want %v", r, err, want)
			}
		}
	}
	done, doneBranch := alone(t, path, "add alice 1")
	if state, err := done.CommitOnePhase(t.Context()); state != txn.BranchCommitted {
		t.Fatal(state, err)
	}
	rollback(doneBranch, participant.Committed)
	_, gone := alone(t, path, "add alice 2")
	rollback(gone, participant.RolledBack)
	prepared, preparedBranch := alone(t, path, "add alice 4")
	if vote, err := prepared.Prepare(t.Context()); vote != txn.VotePrepared {
		t.Fatal(vote, err)
	}
	forget(t, l)
	rollback(preparedBranch, participant.RolledBack) // now
	rollback(doneBranch, participant.Unknown)
	rollback(participant.Branch{XID: doneBranch.XID}, participant.Unknown)
	if n, err := l.Total(t.Context()); n != 1 || err != nil {
		t.Errorf("alice has %d, %v", n, err)
	}
}

// TestFormOfASession must never be rewritten: logs hold this text.
func TestFormOfASession(t *testing.T) {
	if got := (startMark{123, true}).String(); got != "ends=123" {
		t.Errorf("got %q", got)
	}
	if got := (startMark{}).String(); got != "" {
		t.Errorf("got %q", got)
	}
	if b, err := parseStartMark("ends=123"); b != (startMark{123, true}) || err != nil {
		t.Errorf("got %v, %v", b, err)
	}
	for _, text := range []string{"", "ends=", "ends=-1", "ends=01", "ends=1 ", " ends=1", "ends=18446744073709551616", "pid=1"} {
		if b, err := parseStartMark(text); !errors.Is(err, txn.ErrInvalid) || b.known {
			t.Errorf("%q: %v, %v", text, b, err)
		}
	}
}

// TestSessionBeginsWithoutReadingTheFile, when the store has just read it; and the mark never
// says that more has ended than has.
func TestSessionBeginsWithoutReadingTheFile(t *testing.T) {
	l, path := newLedger(t)
	record(t, l, "one", time.Now())
	db, err := newStore(path).open(t.Context(), false) // another process has it open and does not close it
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if b, err := l.store.startMark(ctx); b != (startMark{1, true}) || err != nil {
		t.Errorf("%v, %v", b, err)
	}
	if b, err := newStore(path).startMark(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, %v", b, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	refused := errors.New("no")
	if err := l.store.update(t.Context(), func(tx *bbolt.Tx) error {
		if err := recordOutcome(tx, "two", participant.Committed, time.Now()); err != nil {
			return err
		}
		return refused
	}); !errors.Is(err, refused) {
		t.Fatal(err)
	}
	if b, err := l.store.startMark(t.Context()); b != (startMark{1, true}) || err != nil {
		t.Errorf("after an operation that failed: %v, %v", b, err)
	}
	record(t, New("other", path), "two", time.Now())
	if b, err := newStore(path).startMark(t.Context()); b != (startMark{2, true}) || err != nil {
		t.Errorf("%v, %v", b, err)
	}
}
