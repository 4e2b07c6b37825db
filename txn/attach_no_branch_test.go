package txn_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// TestAttachedClientWithoutABranchDoesNotLearnTheOutcome: the deadline of an attached application has
// passed, and it has no branch whose vote would be missed. The application that began the
// transaction may have been granted more time, and may have committed, or have delegated the
// decision, for which there is no deadline.
func TestAttachedClientWithoutABranchDoesNotLearnTheOutcome(t *testing.T) {
	delegated := []txn.BranchInfo{{Vote: txn.VoteDelegated}}
	for name, now := range map[string]txn.Info{
		"committed":        {ID: theID, State: txn.Committed},
		"committing":       {ID: theID, State: txn.Committing},
		"delegated":        {ID: theID, State: txn.Preparing, Branches: delegated},
		"about to commit":  {ID: theID, State: txn.Active, ExpiresIn: txn.Duration(time.Millisecond)},
		"it cannot be had": {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &fakeManager{
					info: txn.Info{ID: theID, State: txn.Active, ExpiresIn: txn.Duration(3 * time.Second)},
					errs: map[string]error{"rollback": &txn.Error{Op: "rollback", ID: theID, State: now.State, Err: txn.ErrConflict}},
				}
				if now.ID.IsZero() {
					s.errs["rollback"] = txn.ErrUnavailable
				}
				_, err := txn.RunIn(t.Context(), s, theID, func(ctx context.Context, _ *txn.Tx) error {
					<-ctx.Done()
					s.info = now
					return context.Cause(ctx)
				})
				claims(t, err)
				if err == nil || errors.Is(err, txn.ErrRolledBack) || errors.Is(err, txn.ErrTimedOut) {
					t.Errorf("the guest is told that %v", err)
				}
			})
		})
	}
}
