package txn_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// TestWithoutTheCoordinatorOthersAreNotKnown: the resources of this application are rolled
// back, and the coordinator is not reached. Another application that takes part may have ended
// its branch by statements of its own: then it is not known that nothing was applied. It is
// known where no other application takes part.
func TestWithoutTheCoordinatorOthersAreNotKnown(t *testing.T) {
	boom := errors.New("boom")
	fails := func(s *fakeManager) func(context.Context, *txn.Tx) error {
		return func(ctx context.Context, tx *txn.Tx) error {
			_, err := s.join(ctx, tx, "bank")
			return errors.Join(err, boom)
		}
	}
	lingers := func(s *fakeManager) func(context.Context, *txn.Tx) error {
		return func(ctx context.Context, tx *txn.Tx) error {
			if _, err := s.join(ctx, tx, "bank"); err != nil {
				return err
			}
			<-ctx.Done()
			s.info = txn.Info{} // the coordinator is unreachable
			return context.Cause(ctx)
		}
	}
	for how, work := range map[string]func(*fakeManager) func(context.Context, *txn.Tx) error{"fails": fails, "lingers": lingers} {
		for who, run := range map[string]func(ctx context.Context, s *fakeManager, fn func(context.Context, *txn.Tx) error) error{
			"alone": func(ctx context.Context, s *fakeManager, fn func(context.Context, *txn.Tx) error) error {
				return txn.Run(ctx, s, txn.Options{}, fn)
			},
			"host": func(ctx context.Context, s *fakeManager, fn func(context.Context, *txn.Tx) error) error {
				return txn.Run(ctx, s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
					txn.Inject(header{}, tx)
					return fn(ctx, tx)
				})
			},
			"guest": func(ctx context.Context, s *fakeManager, fn func(context.Context, *txn.Tx) error) error {
				_, err := txn.RunIn(ctx, s, theID, fn)
				return err
			},
		} {
			t.Run(who+" "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &fakeManager{
						info: txn.Info{ID: theID, State: txn.Active, ExpiresIn: txn.Duration(3 * time.Second)},
						errs: map[string]error{"rollback": txn.ErrUnavailable},
					}
					err := run(t.Context(), s, work(s))
					claims(t, err)
					if got := errors.Is(err, txn.ErrRolledBack); got != (who == "alone") || errors.Is(err, txn.ErrInDoubt) == got {
						t.Errorf("it is told that %v", err)
					}
				})
			})
		}
	}
}
