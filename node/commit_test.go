package node

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

type participantMap = map[string]participant.Participant

func TestCommitWaitsForVotesThatAreAskedForAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := open(t, t.TempDir(), slow, with(participantMap{"shop": yesAfter(2 * time.Second), "stock": yesAfter(3 * time.Second), "bank": newFakeParticipant()}))
		b := beginAt(t, n, time.Minute, "shop", "stock", "bank")
		start := time.Now()
		o, err := n.Commit(t.Context(), b.ID, txn.CommitRequest{Votes: []txn.BranchVote{{Branch: 3, Vote: txn.VoteReadOnly}}})
		if err != nil || !o.State.Commits() {
			t.Errorf("commit: %+v, %v", o, err)
		}
		if took := time.Since(start); took < 3*time.Second || took > 3100*time.Millisecond {
			t.Errorf("votes that take 2s and 3s took %v", took)
		}
		if info := finished(t, n, b.ID); info.State != txn.Committed || info.Heuristic != 0 {
			t.Errorf("%v, %v", info.State, info.Heuristic)
		}
	})
}

func TestCommitLearnsWhyAVoteWasNo(t *testing.T) {
	n := open(t, t.TempDir(), with(participantMap{"shop": yesAfter(0), "stock": refuses("sold out")}))
	b := beginAt(t, n, time.Minute, "shop", "stock")
	o, err := n.Commit(t.Context(), b.ID, txn.CommitRequest{})
	wantErr(t, "commit", err, txn.ErrRolledBack, txn.ErrVotedNo, "stock: sold out")
	if o.State.Commits() || o.Cause != txn.CauseVoteNo {
		t.Errorf("%+v", o)
	}
	info := finished(t, n, b.ID)
	if info.Reason != "stock: sold out" || info.State != txn.RolledBack {
		t.Errorf("%v, reason %q", info.State, info.Reason)
	}
	_, err = n.Commit(t.Context(), b.ID, txn.CommitRequest{})
	wantErr(t, "commit again", err, txn.ErrRolledBack, "stock: sold out")
}

func TestCommitOfWhatHangsEndsAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := open(t, t.TempDir(), slow, with(participantMap{"shop": yesAfter(0), "stock": hangs()}))
		start := time.Now()
		b := beginAt(t, n, 7*time.Second, "shop", "stock")
		_, err := n.Commit(t.Context(), b.ID, txn.CommitRequest{})
		wantErr(t, "commit", err, txn.ErrRolledBack, txn.ErrTimedOut)
		if took := time.Since(start); took < 7*time.Second || took > 7100*time.Millisecond {
			t.Errorf("took %v", took)
		}
		finished(t, n, b.ID)
	})
}

// TestCommitThatIsGivenUpIsInDoubt: a caller that gives up waiting does not know the outcome, and
// may ask again.
func TestCommitThatIsGivenUpIsInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := open(t, t.TempDir(), slow, with(participantMap{"shop": yesAfter(5 * time.Second)}))
		b := beginAt(t, n, time.Minute, "shop")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		o, err := n.Commit(ctx, b.ID, txn.CommitRequest{})
		wantErr(t, "commit", err, txn.ErrInDoubt, context.DeadlineExceeded)
		if errors.Is(err, txn.ErrRolledBack) || o.State != txn.Preparing {
			t.Errorf("%+v, %v", o, err)
		}
		if o, err := n.Commit(t.Context(), b.ID, txn.CommitRequest{}); err != nil || !o.State.Commits() {
			t.Errorf("commit again: %+v, %v", o, err)
		}
		finished(t, n, b.ID)
	})
}

func TestCommitThatWaitsEndsWithTheNode(t *testing.T) {
	n, err := tryOpen(t, t.TempDir(), with(participantMap{"shop": hangs()}))
	if err != nil {
		t.Fatal(err)
	}
	b := beginAt(t, n, time.Hour, "shop")
	ended := make(chan error, 1)
	go func() {
		_, err := n.Commit(context.Background(), b.ID, txn.CommitRequest{})
		ended <- err
	}()
	waittest.Until(t, "preparing", func() bool {
		info, err := n.Get(t.Context(), b.ID)
		return err == nil && info.State == txn.Preparing
	})
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	wantErr(t, "commit", <-ended, txn.ErrInDoubt)
}

func TestCommitThatWaitsLearnsOfARollback(t *testing.T) {
	n := open(t, t.TempDir(), with(participantMap{"shop": hangs()}))
	b := beginAt(t, n, time.Hour, "shop")
	ended := make(chan error, 1)
	go func() {
		_, err := n.Commit(context.Background(), b.ID, txn.CommitRequest{})
		ended <- err
	}()
	waittest.Until(t, "preparing", func() bool {
		info, err := n.Get(t.Context(), b.ID)
		return err == nil && info.State == txn.Preparing
	})
	if _, err := n.Rollback(t.Context(), b.ID, "changed my mind"); err != nil {
		t.Fatal(err)
	}
	wantErr(t, "commit", <-ended, txn.ErrRolledBack, "changed my mind")
}

// TestVotesOfTwoServices: one service reports its vote, the other commits with the rest.
func TestVotesOfTwoServices(t *testing.T) {
	bank, stock := newFakeParticipant(), newFakeParticipant()
	n := open(t, t.TempDir(), with(participantMap{"bank": bank, "stock": stock}))
	b := beginAt(t, n, time.Minute, "bank", "stock")
	bank.prepare(b.Branches[0].XID)
	stock.prepare(b.Branches[1].XID)
	second := txn.Votes{Votes: []txn.BranchVote{{Branch: 2, Vote: txn.VotePrepared}}}
	for range 2 {
		if o, err := n.Vote(t.Context(), b.ID, second); err != nil || o.State != txn.Active {
			t.Fatalf("vote: %+v, %v", o, err)
		}
	}
	_, err := n.Vote(t.Context(), b.ID, txn.Votes{Votes: []txn.BranchVote{{Branch: 2, Vote: txn.VoteReadOnly}}})
	wantErr(t, "another vote", err, txn.ErrInvalid)
	_, err = n.Vote(t.Context(), b.ID, txn.Votes{Reason: string(make([]byte, txn.MaxReason+1))})
	wantErr(t, "a reason too long", err, txn.ErrInvalid)
	if o, err := n.Commit(t.Context(), b.ID, txn.CommitRequest{Votes: prepared(1)}); err != nil || !o.State.Commits() {
		t.Fatalf("commit: %+v, %v", o, err)
	}
	if _, err := n.Vote(t.Context(), b.ID, second); err != nil {
		t.Errorf("vote again after the decision: %v", err)
	}
	if info := finished(t, n, b.ID); info.State != txn.Committed || info.Heuristic != 0 {
		t.Errorf("%v, %v", info.State, info.Heuristic)
	}
}

func TestVoteNoDecides(t *testing.T) {
	n := open(t, t.TempDir(), with(participantMap{"bank": newFakeParticipant(), "stock": newFakeParticipant()}))
	b := beginAt(t, n, time.Minute, "bank", "stock")
	no := txn.Votes{Votes: []txn.BranchVote{{Branch: 2, Vote: txn.VoteNo}}, Reason: "sold out"}
	if o, err := n.Vote(t.Context(), b.ID, no); err != nil || o.State != txn.RollingBack || o.Cause != txn.CauseVoteNo {
		t.Fatalf("vote: %+v, %v", o, err)
	}
	_, err := n.Vote(t.Context(), b.ID, txn.Votes{Votes: prepared(1)})
	wantErr(t, "a yes after that", err, txn.ErrRolledBack, "sold out")
	_, err = n.Commit(t.Context(), b.ID, txn.CommitRequest{Votes: prepared(1)})
	wantErr(t, "commit after that", err, txn.ErrRolledBack, txn.ErrVotedNo, "sold out")
	finished(t, n, b.ID)
}

// TestAttach: a second service takes part in the first one's transaction, with a ledger of its
// own.
func TestAttach(t *testing.T) {
	n, bank, stock := withLedgers(t)
	ctx := t.Context()
	first, err := txn.Start(ctx, n, txn.Options{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if err := bank.Add(ctx, first, "a", -10); err != nil {
		t.Fatal(err)
	}
	second, err := txn.Attach(ctx, n, first.ID())
	if err != nil {
		t.Fatal(err)
	}
	if err := stock.Add(ctx, second, "a", 10); err != nil {
		t.Fatal(err)
	}
	if err := second.Prepare(ctx); err != nil {
		t.Fatal(err)
	}
	followed := make(chan error, 1)
	go func() { followed <- second.Complete(ctx) }()
	if err := first.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-followed; err != nil {
		t.Error(err)
	}
	if info := finished(t, n, first.ID()); info.State != txn.Committed {
		t.Errorf("%+v", info)
	}
	for l, want := range map[interface {
		Balances(context.Context) (map[string]int64, error)
	}]int64{bank: 90, stock: 110} {
		if got, err := l.Balances(ctx); err != nil || got["a"] != want {
			t.Errorf("%v, %v; want %d", got, err, want)
		}
	}
	if _, err := txn.Attach(ctx, n, first.ID()); !errors.Is(err, txn.ErrNotActive) {
		t.Errorf("attach to what is committed: %v", err)
	}
}
