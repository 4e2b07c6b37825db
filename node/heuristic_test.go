package node

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// wantHeuristic checks that every query of a node reports that some changes may be applied.
func wantHeuristic(t *testing.T, n *Node, id txn.ID) {
	t.Helper()
	_, errCommit := n.Commit(t.Context(), id, txn.CommitRequest{Votes: prepared(1)})
	_, errVote := n.Vote(t.Context(), id, txn.Votes{})
	_, errDelegate := n.Delegate(t.Context(), id, 1)
	_, errExtend := n.Extend(t.Context(), id, time.Hour)
	_, errEnlist := n.Enlist(t.Context(), id, txn.Enlistment{Participant: "shop"})
	_, errAttach := txn.Attach(t.Context(), n, id)
	wantAllHeuristic(t, map[string]error{
		"commit": errCommit, "vote": errVote, "delegate": errDelegate, "extend": errExtend, "enlist": errEnlist, "attach": errAttach,
	})
}

func wantAllHeuristic(t *testing.T, told map[string]error) {
	t.Helper()
	for op, err := range told {
		if !errors.Is(err, txn.ErrHeuristic) || errors.Is(err, txn.ErrRolledBack) || txn.CodeOf(err) != txn.CodeInDoubt {
			t.Errorf("%s is told that %v; want %v", op, err, txn.ErrHeuristic)
		}
	}
}

// TestHeuristicOutcomeIsNoRollback: a transaction is rolled back, and one of its branches is, or may
// be, committed. Whatever call an application makes then, it is not told that nothing was applied,
// also after a restart, and after an operator has forgotten the heuristic outcome.
func TestHeuristicOutcomeIsNoRollback(t *testing.T) {
	boom := errors.New("boom")
	for name, first := range map[string]func(ctx context.Context, tx *txn.Tx) error{
		"commits":             func(context.Context, *txn.Tx) error { return nil },
		"commits, and is mum": func(ctx context.Context, tx *txn.Tx) error { _ = tx.Commit(ctx); return nil },
		"fails":               func(context.Context, *txn.Tx) error { return boom },
		"rolls back":          func(ctx context.Context, tx *txn.Tx) error { return tx.Rollback(ctx, "changed its mind") },
		"rolls back, mum":     func(ctx context.Context, tx *txn.Tx) error { _ = tx.Rollback(ctx, "changed its mind"); return nil },
	} {
		for _, end := range []participant.BranchOutcome{participant.Committed, participant.Unknown} {
			t.Run(name, func(t *testing.T) {
				shop := newFakeParticipant()
				opened := with(participantMap{"shop": shop})
				dir := t.TempDir()
				n := open(t, dir, opened)
				beginAt(t, n, time.Minute, "shop") // registers the participant
				var id txn.ID
				told := map[string]error{}
				told["who began it"] = txn.Run(t.Context(), n, txn.Options{Timeout: time.Minute}, func(ctx context.Context, tx *txn.Tx) error {
					id = tx.ID()
					b, err := tx.Enlist(ctx, txn.Enlistment{Participant: "shop"})
					if err != nil {
						return err
					}
					shop.byHand(b.XID, end)
					if _, err := n.Rollback(ctx, id, "by another"); err != nil {
						return err
					}
					if info := finished(t, n, id); info.Heuristic == 0 || info.EndedByApplication() {
						t.Errorf("%+v", info)
					}
					return first(ctx, tx)
				})
				wantAllHeuristic(t, told)
				wantHeuristic(t, n, id)
				if err := n.Close(); err != nil {
					t.Fatal(err)
				}
				n = open(t, dir, opened)
				wantHeuristic(t, n, id)
				if _, err := n.Admin().Forget(t.Context(), id, "ann", "paid"); err != nil {
					t.Fatal(err)
				}
				wantHeuristic(t, n, id)
			})
		}
	}
}
