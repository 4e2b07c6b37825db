package txn_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/txmgr/txmgr/txn"
)

var (
	uncertainErrs = []error{txn.ErrInDoubt, txn.ErrHeuristic, txn.ErrForgotten, txn.ErrEndedByApplication}
	retrySafeErrs = []error{txn.ErrRolledBack, txn.ErrTimedOut, txn.ErrVotedNo, txn.ErrSessionExpired}
	sentinels     = append([]error{
		txn.ErrInvalid, txn.ErrNotFound, txn.ErrConflict, txn.ErrDenied, txn.ErrManaged, txn.ErrNotActive, txn.ErrUnavailable, txn.ErrWaitTimeout,
	}, append(uncertainErrs, retrySafeErrs...)...)
	everyCause = []txn.Cause{0, txn.CauseTimeout, txn.CauseVoteNo, txn.CauseClient, txn.CauseOperator, txn.CauseSessionExpired}
)

// claims fails the test when an error both permits doing the work again and says that
// something may be applied.
func claims(t *testing.T, err error) {
	t.Helper()
	for _, u := range uncertainErrs {
		for _, p := range retrySafeErrs {
			if errors.Is(err, u) && errors.Is(err, p) {
				t.Errorf("%q is %q and %q", err, u, p)
			}
		}
	}
}

// TestCausesComeWithARollback: no combination of sentinels, cause and heuristic outcome permits
// what it must not, and no cause is lost.
func TestCausesComeWithARollback(t *testing.T) {
	for _, a := range sentinels {
		for _, b := range append([]error{nil}, sentinels...) {
			for _, cause := range everyCause {
				for _, hazard := range []txn.Heuristic{0, txn.HeuristicCommit} {
					e := &txn.Error{Op: "commit", Cause: cause, Heuristic: hazard, Err: a}
					if b != nil {
						e.Err = fmt.Errorf("%w: %w", a, b)
					}
					claims(t, e)
					claims(t, txn.Wrap("commit", txn.ID{}, e.Err))
					claims(t, &txn.Error{Op: "outer", Cause: cause, Err: e})
					said := map[txn.Cause]error{txn.CauseTimeout: txn.ErrTimedOut, txn.CauseVoteNo: txn.ErrVotedNo, txn.CauseSessionExpired: txn.ErrSessionExpired}[cause]
					if b == nil && said != nil && a != said {
						want := hazard == 0 && (a == txn.ErrRolledBack || a == txn.ErrNotFound && cause == txn.CauseSessionExpired)
						if got := errors.Is(e, said); got != want {
							t.Errorf("%q is %q: %v, want %v", e, said, got, want)
						}
					}
					if b == nil && hazard == 0 && !errors.Is(e, a) || hazard != 0 && !errors.Is(e, txn.ErrHeuristic) {
						t.Errorf("%q is not what it says", e)
					}
				}
			}
		}
	}
}

// TestErrorOfTheWorkIsNoEnd: the function, a vote or the coordinator may return the error of
// another transaction; the end is still that of this one.
func TestErrorOfTheWorkIsNoEnd(t *testing.T) {
	other := txn.NewID(time.UnixMilli(9), [9]byte{9})
	for _, sentinel := range sentinels {
		for _, cause := range everyCause {
			why := fmt.Errorf("elsewhere: %w", &txn.Error{Op: "commit", ID: other, Cause: cause, Err: sentinel})
			for name, c := range map[string]struct {
				errs map[string]error
				fn   error // of the function
				want error // nil: whatever the coordinator answers
			}{
				"the function fails":            {nil, why, txn.ErrRolledBack},
				"a vote fails":                  {map[string]error{"bank prepares": why}, nil, nil},
				"the branch was ended by hand":  {map[string]error{"bank rolls back": txn.ErrEndedByApplication}, why, txn.ErrEndedByApplication},
				"the rollback is a conflict":    {map[string]error{"rollback": txn.ErrConflict}, why, txn.ErrConflict},
				"the commit is in doubt":        {map[string]error{"commit": &txn.Error{Err: fmt.Errorf("%w: %w", txn.ErrInDoubt, why)}}, nil, nil},
				"the coordinator is not there":  {map[string]error{"commit": txn.ErrUnavailable, "rollback": fmt.Errorf("%w: %w", errOut, context.DeadlineExceeded)}, nil, txn.ErrInDoubt},
				"the rollback is told in doubt": {map[string]error{"rollback": txn.ErrUnavailable}, why, txn.ErrRolledBack},
			} {
				s := &fakeManager{errs: c.errs}
				err := txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
					if _, err := s.join(ctx, tx, "bank"); err != nil {
						return err
					}
					return c.fn
				})
				claims(t, err)
				if err == nil || c.want != nil && !errors.Is(err, c.want) || c.want != nil && c.want != txn.ErrRolledBack && errors.Is(err, txn.ErrRolledBack) {
					t.Errorf("%s with %v: %v", name, why, err)
				}
			}
		}
	}
}

// TestUnreachedRollbackIsNoEnd: another application's transaction may be committed although the
// work here failed, so that error says nothing about its end.
func TestUnreachedRollbackIsNoEnd(t *testing.T) {
	for _, sentinel := range retrySafeErrs {
		s := &fakeManager{errs: map[string]error{"rollback": txn.ErrUnavailable}, info: txn.Info{ID: theID, State: txn.Active}}
		_, err := txn.RunIn(t.Context(), s, theID, func(context.Context, *txn.Tx) error {
			return &txn.Error{Op: "commit", Err: sentinel}
		})
		if err == nil || errors.Is(err, sentinel) {
			t.Errorf("%q is %q", err, sentinel)
		}
	}
}
