package txn_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/txn"
)

func TestRunRollsBack(t *testing.T) {
	for _, c := range []struct {
		name  string
		fn    func(ctx context.Context, tx *txn.Tx) error
		want  []error
		trace string
	}{
		{
			name:  "on an error",
			fn:    func(context.Context, *txn.Tx) error { return errOut },
			want:  []error{txn.ErrRolledBack, errOut},
			trace: "bank rolls back\nbank releases\nrollback: out of order\ndone b1=rolled-back",
		},
		{
			name:  "when asked to by the function",
			fn:    func(ctx context.Context, tx *txn.Tx) error { return tx.Rollback(ctx, "no need") },
			want:  []error{txn.ErrRolledBack},
			trace: "bank rolls back\nbank releases\nrollback: no need\ndone b1=rolled-back",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &fakeManager{}
			err := txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
				if _, err := s.join(ctx, tx, "bank"); err != nil {
					return err
				}
				return c.fn(ctx, tx)
			})
			checkError(t, err, c.want, []error{txn.ErrVotedNo, txn.ErrTimedOut})
			if diff := cmp.Diff(strings.Split("begin \nenlist bank session-of-bank\n"+c.trace, "\n"), s.trace); diff != "" {
				t.Errorf("story (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRollbackIsNotInDoubt: a call of the function was in doubt, and the transaction is not.
// The rest of the error is kept.
func TestRollbackIsNotInDoubt(t *testing.T) {
	s := &fakeManager{}
	lost := &txn.Error{Op: "enlist", Err: txn.ErrInDoubt, Detail: "leadership lost"}
	err := txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
		if _, err := s.join(ctx, tx, "bank"); err != nil {
			return err
		}
		return errors.Join(lost, errOut)
	})
	checkError(t, err, []error{txn.ErrRolledBack, errOut}, []error{txn.ErrInDoubt})
	if code := txn.CodeOf(err); code != txn.CodeRolledBack || !strings.Contains(err.Error(), "leadership lost") {
		t.Errorf("%v: %v", code, err)
	}
}

func TestRunRollsBackOnPanicAndGoexit(t *testing.T) {
	for name, leave := range map[string]func(){
		"panic":  func() { panic(errOut) },
		"goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			s := &fakeManager{}
			var wg sync.WaitGroup
			wg.Go(func() {
				defer func() { _ = recover() }()
				_ = txn.Run(context.Background(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
					if _, err := s.join(ctx, tx, "bank"); err != nil {
						t.Error(err)
					}
					leave()
					return nil
				})
				t.Error("Run returned")
			})
			wg.Wait()
			want := "begin \nenlist bank session-of-bank\nbank rolls back\nbank releases\nrollback: the function did not return\ndone b1=rolled-back"
			if diff := cmp.Diff(strings.Split(want, "\n"), s.trace); diff != "" {
				t.Errorf("story (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRunAddsNothingToAnEndThatTheFunctionChose(t *testing.T) {
	s := &fakeManager{}
	err := txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error { return tx.Commit(ctx) })
	if err != nil {
		t.Error(err)
	}
	err = txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
		return errors.Join(tx.Commit(ctx), errOut)
	})
	if !errors.Is(err, errOut) || errors.Is(err, txn.ErrRolledBack) {
		t.Errorf("an error after a commit came back as %v", err)
	}
	s.errs = map[string]error{"commit": errOut}
	err = txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
		_ = tx.Commit(ctx)
		return nil
	})
	checkError(t, err, []error{txn.ErrInDoubt}, []error{txn.ErrRolledBack})
	for _, line := range s.trace {
		if strings.HasPrefix(line, "rollback") {
			t.Errorf("rolled back:\n%s", s.told())
		}
	}
}

// TestRunHidesTheEndOfAnotherTransaction behind a commit of the function's own, not behind its rollback.
func TestRunHidesTheEndOfAnotherTransaction(t *testing.T) {
	another := &txn.Error{Op: "run", Cause: txn.CauseTimeout, Err: txn.ErrRolledBack}
	for name, end := range map[string]func(context.Context, *txn.Tx) error{
		"commit":   func(ctx context.Context, tx *txn.Tx) error { return tx.Commit(ctx) },
		"rollback": func(ctx context.Context, tx *txn.Tx) error { return tx.Rollback(ctx, "enough") },
	} {
		err := txn.Run(t.Context(), &fakeManager{}, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
			return errors.Join(end(ctx, tx), another, errOut)
		})
		rolledBack := name == "rollback"
		if !errors.Is(err, errOut) || errors.Is(err, txn.ErrRolledBack) != rolledBack || errors.Is(err, txn.ErrTimedOut) != rolledBack {
			t.Errorf("after a %s: %v", name, err)
		}
	}
}

// TestTimeoutEndsTheWork: the context of the work ends with the granted timeout, the resources
// are released at once, and the coordinator times the transaction out by itself, so that it
// records the right cause.
func TestTimeoutEndsTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeManager{timeout: 3 * time.Second}
		began := time.Now()
		err := txn.Run(t.Context(), s, txn.Options{Timeout: time.Hour}, func(ctx context.Context, tx *txn.Tx) error {
			if _, err := s.join(ctx, tx, "bank"); err != nil {
				return err
			}
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), txn.ErrTimedOut) {
				t.Errorf("the context ended with %v", context.Cause(ctx))
			}
			return ctx.Err()
		})
		checkError(t, err, []error{txn.ErrRolledBack, txn.ErrTimedOut, context.Canceled}, nil)
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("took %v", took)
		}
		want := []string{"begin ", "enlist bank session-of-bank", "bank rolls back", "bank releases"}
		if diff := cmp.Diff(want, s.trace); diff != "" {
			t.Errorf("story (-want +got):\n%s", diff)
		}
	})
}

// TestPrepareThatTakesTooLongTimesOut, but the decision itself is not cut short.
func TestPrepareThatTakesTooLongTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeManager{timeout: time.Second}
		err := txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
			_, err := txn.Join(ctx, tx, "slow", func(context.Context, txn.EnlistFunc) (*slowResource, error) {
				return &slowResource{fakeResource{s, "slow"}}, nil
			})
			return err
		})
		checkError(t, err, []error{txn.ErrRolledBack, txn.ErrTimedOut}, []error{txn.ErrVotedNo})
	})
}

type slowResource struct{ fakeResource }

func (s *slowResource) Prepare(ctx context.Context) (txn.Vote, error) {
	<-ctx.Done()
	return 0, context.Cause(ctx)
}

// TestInnerRunIsNotTimedOutByTheOuterOne: the timeout of an outer transaction says nothing
// about the inner one's.
func TestInnerRunIsNotTimedOutByTheOuterOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() {
			cancel(&txn.Error{ID: txn.NewID(time.UnixMilli(9), [9]byte{9}), Cause: txn.CauseTimeout, Err: txn.ErrTimedOut})
		})
		s := &fakeManager{}
		_ = txn.Run(outer, s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
			<-ctx.Done()
			return errOut
		})
		if want := []string{"begin ", "rollback: out of order"}; !cmp.Equal(want, s.trace) {
			t.Errorf("the coordinator was not told: %q", s.trace)
		}
	})
}

func TestCallerThatLeavesBeforeTheDecisionRollsBack(t *testing.T) {
	s := &fakeManager{}
	ctx, cancel := context.WithCancelCause(t.Context())
	err := txn.Run(ctx, s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
		_, err := s.join(ctx, tx, "bank")
		cancel(errOut)
		return err
	})
	checkError(t, err, []error{txn.ErrRolledBack, errOut}, []error{txn.ErrVotedNo, txn.ErrInDoubt})
	want := []string{"begin ", "enlist bank session-of-bank", "bank prepares", "bank rolls back", "bank releases", "rollback: out of order", "done b1=rolled-back"}
	if diff := cmp.Diff(want, s.trace); diff != "" {
		t.Errorf("story (-want +got):\n%s", diff)
	}
}

func TestFromContext(t *testing.T) {
	if tx, ok := txn.FromContext(t.Context()); ok || tx != nil {
		t.Errorf("an empty context has %v", tx)
	}
	err := txn.Run(t.Context(), &fakeManager{}, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
		if got, ok := txn.FromContext(ctx); !ok || got != tx || tx.ID() != theID {
			t.Errorf("got %v", got)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestBeginThatFailsRunsNothing(t *testing.T) {
	s := &fakeManager{errs: map[string]error{"begin": &txn.Error{Op: "begin", Err: txn.ErrUnavailable}}}
	err := txn.Run(t.Context(), s, txn.Options{}, func(context.Context, *txn.Tx) error {
		t.Error("ran")
		return nil
	})
	checkError(t, err, []error{txn.ErrUnavailable}, nil)
}

// TestCallerWithLittleTime: the timeout that is asked for is never so short that a
// coordinator refuses it, nor longer than the one of the options.
func TestCallerWithLittleTime(t *testing.T) {
	for _, c := range []struct{ left, timeout, want time.Duration }{
		{40 * time.Millisecond, 0, time.Second},
		{40 * time.Millisecond, time.Minute, time.Second},
		{40 * time.Millisecond, 300 * time.Millisecond, 300 * time.Millisecond},
		{5 * time.Second, time.Minute, 5 * time.Second},
		{time.Hour, time.Minute, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), c.left)
			defer cancel()
			s := &fakeManager{}
			err := txn.Run(ctx, s, txn.Options{Timeout: c.timeout}, func(context.Context, *txn.Tx) error { return nil })
			checkError(t, err, nil, nil)
			if s.asked.Timeout != c.want {
				t.Errorf("%v left, %v wanted: asked for %v, want %v", c.left, c.timeout, s.asked.Timeout, c.want)
			}
		})
	}
}
