package node

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/ledger"
	"github.com/txmgr/txmgr/txn"
)

// wantByHand checks that every query of a node reports that the branch was ended by hand.
func wantByHand(t *testing.T, n *Node, id txn.ID, hazard txn.Heuristic) {
	t.Helper()
	_, errCommit := n.Commit(t.Context(), id, txn.CommitRequest{Votes: prepared(1)})
	_, errRollback := n.Rollback(t.Context(), id, "late")
	_, errVote := n.Vote(t.Context(), id, txn.Votes{})
	_, errDelegate := n.Delegate(t.Context(), id, 1)
	_, errExtend := n.Extend(t.Context(), id, time.Hour)
	_, errEnlist := n.Enlist(t.Context(), id, txn.Enlistment{Participant: "bank"})
	_, errAttach := txn.Attach(t.Context(), n, id)
	for op, err := range map[string]error{
		"commit": errCommit, "rollback": errRollback, "vote": errVote, "delegate": errDelegate, "extend": errExtend, "enlist": errEnlist, "attach": errAttach,
	} {
		if !errors.Is(err, txn.ErrEndedByApplication) || errors.Is(err, txn.ErrRolledBack) || errors.Is(err, txn.ErrHeuristic) != (hazard != 0) {
			t.Errorf("%s is told that %v; want %v, heuristic %q", op, err, txn.ErrEndedByApplication, hazard)
		}
	}
}

// TestServiceThatEndsItsBranchIsNoNo: a service that ended its branch answers prepare with a vote
// of its own, which is not a plain no, in each form of the answer; and the branch is checked
// afterwards.
func TestServiceThatEndsItsBranchIsNoNo(t *testing.T) {
	typed := func(vote txn.Vote, end participant.BranchOutcome) *voter {
		v := &voter{fakeParticipant: newFakeParticipant()}
		v.vote = func(_ context.Context, b participant.Branch) (txn.Vote, string, error) {
			v.byHand(b.XID, end)
			if vote == 0 {
				return 0, "", fmt.Errorf("%w: COMMIT was typed", txn.ErrEndedByApplication)
			}
			return vote, "COMMIT was typed", nil
		}
		return v
	}
	for name, c := range map[string]struct {
		shop   *voter
		hazard txn.Heuristic
	}{
		"a vote, committed":     {typed(txn.VoteEndedByApplication, participant.Committed), txn.HeuristicMixed},
		"an error, committed":   {typed(0, participant.Committed), txn.HeuristicMixed},
		"a vote, rolled back":   {typed(txn.VoteEndedByApplication, participant.RolledBack), 0},
		"a vote, nobody knows":  {typed(txn.VoteEndedByApplication, participant.Unknown), txn.HeuristicHazard},
		"an error, rolled back": {typed(0, participant.RolledBack), 0},
	} {
		t.Run(name, func(t *testing.T) {
			bank := newFakeParticipant()
			dir := t.TempDir()
			n := open(t, dir, with(participantMap{"shop": c.shop, "bank": bank}))
			b := beginAt(t, n, time.Minute, "bank", "shop")
			bank.prepare(b.Branches[0].XID)
			_, err := n.Commit(t.Context(), b.ID, txn.CommitRequest{Votes: prepared(1)})
			wantErr(t, "commit", err, txn.ErrEndedByApplication, "COMMIT was typed")
			if errors.Is(err, txn.ErrRolledBack) {
				t.Errorf("commit is told that nothing was applied: %v", err)
			}
			info := finished(t, n, b.ID)
			if info.State != txn.RolledBack || info.Heuristic != c.hazard || !info.EndedByApplication() || info.Branches[0].State != txn.BranchRolledBack {
				t.Errorf("%+v", info)
			}
			wantByHand(t, n, b.ID, c.hazard)
			if err := n.Close(); err != nil {
				t.Fatal(err)
			}
			n = open(t, dir, with(participantMap{"shop": c.shop, "bank": bank}))
			wantByHand(t, n, b.ID, c.hazard)
		})
	}
}

// TestDelegatedBranchThatWasEndedManuallyIsResolvedAtOnce: the participant is asked without waiting
// for the deadline, since the application will not end the branch.
func TestDelegatedBranchThatWasEndedManuallyIsResolvedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bank := newFakeParticipant()
		n := open(t, t.TempDir(), slow, with(participantMap{"bank": bank}))
		b := beginAt(t, n, time.Hour, "bank")
		if _, err := n.Delegate(t.Context(), b.ID, 1); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		o, err := n.Vote(t.Context(), b.ID, txn.Votes{Votes: []txn.BranchVote{{Branch: 1, Vote: txn.VoteEndedByApplication}}, Reason: "ROLLBACK was typed"})
		if err != nil || !o.EndedByApplication {
			t.Errorf("vote: %+v, %v", o, err)
		}
		if info := finished(t, n, b.ID); info.State != txn.RolledBack || time.Since(start) > time.Minute {
			t.Errorf("%v after %v", info.State, time.Since(start))
		}
		wantByHand(t, n, b.ID, 0)
	})
}

// TestBranchOfTheLedgerThatAnotherSessionCommitted: the application's handle detects the commit
// when it carries out the rollback; from then on every query reports it.
func TestBranchOfTheLedgerThatAnotherSessionCommitted(t *testing.T) {
	n, bank, stock := withLedgers(t)
	ctx := t.Context()
	first, err := txn.Start(ctx, n, txn.Options{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if err := bank.Add(ctx, first, "a", -10); err != nil {
		t.Fatal(err)
	}
	second, err := txn.RunIn(ctx, n, first.ID(), func(ctx context.Context, tx *txn.Tx) error { return stock.Add(ctx, tx, "a", 10) })
	if err != nil {
		t.Fatal(err)
	}
	reg, _ := n.registration("stock")
	p, err := ledger.Driver(ctx, reg, n.clusterID())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	b := participant.Branch{TX: first.ID(), ID: 2, XID: txn.XID(n.clusterID(), first.ID(), 2), Vote: txn.VotePrepared}
	if r, err := p.Commit(ctx, b); err != nil || r.Outcome != participant.Committed {
		t.Fatal(r, err)
	}
	_ = first.Rollback(ctx, "changed its mind") // the commit is not known yet
	err = second.Complete(ctx)
	wantErr(t, "follow", err, txn.ErrEndedByApplication, "committed by another session")
	info := finished(t, n, first.ID())
	if !info.EndedByApplication() || info.Heuristic != txn.HeuristicMixed {
		t.Errorf("%+v", info)
	}
	wantByHand(t, n, first.ID(), info.Heuristic)
}
