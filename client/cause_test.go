package client_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/node"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// voter is a resource with a fixed vote.
type voter struct {
	vote txn.Vote
	err  error // of every method
}

func (v *voter) Prepare(context.Context) (txn.Vote, error) { return v.vote, v.err }
func (v *voter) Commit(context.Context) error              { return v.err }
func (v *voter) Rollback(context.Context) error            { return v.err }
func (v *voter) Release()                                  {}

// rolledBack is a participant where every branch is rolled back.
type rolledBack struct{ participant.Participant }

func (rolledBack) Rollback(context.Context, participant.Branch) (participant.Result, error) {
	return participant.Result{Outcome: participant.RolledBack}, nil
}

func (rolledBack) Prepared(context.Context, string) ([]participant.Prepared, error) { return nil, nil }
func (rolledBack) Check(context.Context) error                                      { return nil }
func (rolledBack) Close() error                                                     { return nil }

// TestCauseOfATransactionThatWasEndedByHand: the coordinator has recorded a vote no as the
// cause. The error must not match that cause, nor a rollback, if a branch was ended by the
// application's own statements. This holds for an embedded node and over both transports.
func TestCauseOfATransactionThatWasEndedByHand(t *testing.T) {
	n, err := node.Open(t.Context(), node.Config{
		DataDir: t.TempDir(), Logger: slog.New(slog.DiscardHandler),
		Participants: map[string]participant.Participant{"bank": rolledBack{}, "shop": rolledBack{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	addr := serve(t, n)
	for way, m := range map[string]txn.Manager{
		"embedded": n, "pipe": open(t, client.Config{Address: addr}), "unary": open(t, client.Config{Address: addr, Unary: true}),
	} {
		err := txn.Run(t.Context(), m, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
			for name, v := range map[string]*voter{"bank": {err: txn.ErrEndedByApplication}, "shop": {vote: txn.VoteNo, err: errors.New("sold out")}} {
				if _, err := txn.Join(ctx, tx, name, func(ctx context.Context, enlist txn.EnlistFunc) (*voter, error) {
					_, err := enlist(ctx, "", nil)
					return v, err
				}); err != nil {
					return err
				}
			}
			return nil
		})
		e := (*txn.Error)(nil)
		if !errors.Is(err, txn.ErrEndedByApplication) || !errors.As(err, &e) || e.Cause != txn.CauseVoteNo {
			t.Errorf("%s: %v; want one that was ended by hand, with the cause of the no", way, err)
		}
		for _, permits := range []error{txn.ErrRolledBack, txn.ErrTimedOut, txn.ErrVotedNo, txn.ErrSessionExpired} {
			if errors.Is(err, permits) {
				t.Errorf("%s: %v is %v", way, err, permits)
			}
		}
	}
}
