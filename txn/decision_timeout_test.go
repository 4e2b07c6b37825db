package txn_test

import (
	"context"
	"testing"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// spyDecision records how long the coordinator was given for its decision.
type spyDecision struct {
	fakeManager
	patience time.Duration // zero: no deadline
}

func (l *spyDecision) Commit(ctx context.Context, id txn.ID, c txn.CommitRequest) (txn.Outcome, error) {
	if deadline, ok := ctx.Deadline(); ok {
		l.patience = time.Until(deadline)
	}
	return l.fakeManager.Commit(ctx, id, c)
}

// TestCommitWaitsAsLongAsTheCoordinatorMayAsk: services have until the deadline
// to vote, however short the patience of a single call is.
func TestCommitWaitsAsLongAsTheCoordinatorMayAsk(t *testing.T) {
	for name, service := range map[string]bool{"with a service": true, "databases alone": false} {
		t.Run(name, func(t *testing.T) {
			l := &spyDecision{fakeManager: fakeManager{timeout: time.Minute}}
			err := txn.Run(t.Context(), l, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
				if !service {
					return nil
				}
				_, err := tx.Enlist(ctx, txn.Enlistment{Participant: "mailer"})
				return err
			})
			if err != nil || service != (l.patience > time.Minute) {
				t.Errorf("%v; given %v", err, l.patience)
			}
		})
	}
}
