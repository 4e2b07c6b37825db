package ledger

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

func do(t *testing.T, s *branchTx, statements string) string {
	t.Helper()
	all, err := parse(statements)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := s.doAll(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func local(t *testing.T, l *Ledger, statements string) string {
	t.Helper()
	answer, err := l.Local(t.Context(), statements)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func TestSessionAloneSeesItsChanges(t *testing.T) {
	l, _ := newLedger(t)
	local(t, l, "set alice 100; set bob 5")
	s := newBranchTx(l.store, "x1")
	got := do(t, s, "get alice; move alice bob 30; get alice; get bob; add bob 1; get bob; set carol 9; add carol -2; get carol; get nobody")
	want := "alice 100\nalice 70\nbob 35\nbob 36\ncarol 7\nnobody 0\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := local(t, l, "get alice; get bob; get carol"); got != "alice 100\nbob 5\ncarol 0\n" {
		t.Errorf("others see %q", got)
	}
	if vote, err := s.Prepare(t.Context()); vote != txn.VotePrepared {
		t.Fatal(vote, err)
	}
	if err := s.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := local(t, l, "get alice; get bob; get carol"); got != "alice 70\nbob 36\ncarol 7\n" {
		t.Errorf("after the commit: %q", got)
	}
}

func TestReadsAreRepeatable(t *testing.T) {
	l, _ := newLedger(t)
	local(t, l, "set alice 100")
	s := newBranchTx(l.store, "x1")
	do(t, s, "get alice")
	local(t, l, "add alice 1")
	if got := do(t, s, "get alice"); got != "alice 100\n" {
		t.Errorf("read %q the second time", got)
	}
	vote, err := s.Prepare(t.Context())
	if vote != txn.VoteNo || err == nil || !strings.Contains(err.Error(), "has changed since it was read") {
		t.Errorf("vote %v, %v", vote, err)
	}
}

func TestVotes(t *testing.T) {
	for _, c := range []struct {
		name      string
		before    string // by no branch in particular
		work      string // by the branch
		meanwhile string // prepared by another branch
		vote      txn.Vote
		why       string
	}{
		{name: "nothing done", vote: txn.VoteReadOnly, work: ""},
		{name: "reads only", work: "get alice", vote: txn.VoteReadOnly},
		{name: "reads what is locked", work: "get alice", meanwhile: "add alice 1", vote: txn.VoteNo, why: "locked by the prepared branch other"},
		{name: "changes what is locked", work: "add alice 1", meanwhile: "add alice 1", vote: txn.VoteNo, why: "locked by the prepared branch other"},
		{name: "changes beside what is locked", work: "add bob 1", meanwhile: "add alice 1", vote: txn.VotePrepared},
		{name: "additions do not conflict by themselves", work: "add alice 1", before: "add alice 1", vote: txn.VotePrepared},
		{name: "overdraws", work: "move alice bob 101", vote: txn.VoteNo, why: "account alice would go below zero: 100-101"},
		{name: "overdraws what was never there", work: "add nobody -1", vote: txn.VoteNo, why: "account nobody would go below zero: 0-1"},
		{name: "empties", work: "move alice bob 100", vote: txn.VotePrepared},
		{name: "overflows", before: "set bob 9223372036854775807", work: "add bob 1", vote: txn.VoteNo, why: "would go above"},
		{name: "sets, whatever it was", before: "set bob 9223372036854775807", work: "set bob 1; add bob 1", vote: txn.VotePrepared},
		{name: "takes away the most", work: "add alice -9223372036854775808", vote: txn.VoteNo, why: "below zero"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, path := newLedger(t)
			local(t, l, "set alice 100")
			s := newBranchTx(l.store, "x1")
			if c.work != "" {
				do(t, s, c.work)
			}
			if c.before != "" {
				local(t, l, c.before)
			}
			if c.meanwhile != "" {
				other := newBranchTx(newStore(path), "other")
				do(t, other, c.meanwhile)
				if vote, err := other.Prepare(t.Context()); vote != txn.VotePrepared {
					t.Fatal(vote, err)
				}
			}
			vote, err := s.Prepare(t.Context())
			if vote != c.vote || (err != nil) != (c.vote == txn.VoteNo) || err != nil && !strings.Contains(err.Error(), c.why) {
				t.Errorf("voted %v, %v; want %v, %s", vote, err, c.vote, c.why)
			}
		})
	}
}

func TestBranchPreparesOnce(t *testing.T) {
	l, path := newLedger(t)
	for name, end := range map[string]finishFunc{"prepared already": nil, "has ended already: rolled back": rollback} {
		xid := "txm_" + strings.ReplaceAll(name, " ", "_")
		s := newBranchTx(l.store, xid)
		do(t, s, "add "+strings.ReplaceAll(strings.ReplaceAll(name, " ", "-"), ":", "")+" 1")
		if vote, err := s.Prepare(t.Context()); vote != txn.VotePrepared {
			t.Fatal(vote, err)
		}
		if end != nil {
			if _, err := l.store.finish(t.Context(), xid, end); err != nil {
				t.Fatal(err)
			}
		}
		again := newBranchTx(newStore(path), xid)
		do(t, again, "add other 1")
		if vote, err := again.Prepare(t.Context()); vote != txn.VoteNo || !strings.Contains(err.Error(), name) {
			t.Errorf("voted %v, %v; want no: %s", vote, err, name)
		}
		if err := again.Rollback(t.Context()); err != nil {
			t.Errorf("rollback of a refused branch: %v", err)
		}
	}
	if left, err := l.Prepared(t.Context()); err != nil || len(left) != 1 {
		t.Errorf("the rollback of a refused branch touched another: %v, %v", left, err)
	}
}

func TestWorkAfterPrepareIsRefused(t *testing.T) {
	l, _ := newLedger(t)
	s := newBranchTx(l.store, "x1")
	do(t, s, "add alice 1")
	if _, err := s.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.do(t.Context(), statement{"add", []string{"alice"}, 1}); !errors.Is(err, txn.ErrNotActive) {
		t.Errorf("got %v", err)
	}
}

func TestCommitOfASessionThatWasRolledBackElsewhereIsNoSuccess(t *testing.T) {
	l, path := newLedger(t)
	s := newBranchTx(l.store, txn.ClusterPrefix("test")+"1")
	do(t, s, "add alice 1")
	if _, err := s.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := openParticipant(t, path).Rollback(t.Context(), participant.Branch{XID: s.xid}); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context()); err == nil {
		t.Error("committed")
	}
	if err := s.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestOneTransactionTouchesAtMostSoManyAccounts(t *testing.T) {
	l, _ := newLedger(t)
	s := newBranchTx(l.store, "x1")
	var err error
	n := 0
	for ; err == nil && n <= maxAccounts; n++ {
		_, err = s.do(t.Context(), statement{"add", []string{"a" + strings.Repeat("b", n%60) + string(rune('a'+n/60))}, 1})
	}
	if !errors.Is(err, txn.ErrInvalid) || n != maxAccounts+1 {
		t.Errorf("after %d: %v", n, err)
	}
}

func TestOperationEndsWithItsContextWhileTheFileIsBusy(t *testing.T) {
	l, path := newLedger(t)
	local(t, l, "set alice 1")
	db, err := newStore(path).open(t.Context(), false) // another process has it open and does not close it
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), firstPause)
	defer cancel()
	for name, call := range map[string]func() error{
		"write": func() error { _, err := l.Local(ctx, "add alice 1"); return err },
		"read":  func() error { _, err := l.Balances(ctx); return err },
	} {
		if err := call(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(l.store.queue) != 0 {
		t.Error("an operation that was given up still waits")
	}
}
