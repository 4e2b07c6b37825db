package txn_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/txn"
)

// TestExtendMovesTheEndOfTheWork, later and never sooner.
func TestExtendMovesTheEndOfTheWork(t *testing.T) {
	type step struct {
		at, timeout time.Duration
	}
	for _, c := range []struct {
		name  string
		errs  map[string]error
		steps []step
		want  time.Duration
	}{
		{name: "not extended", want: 3 * time.Second},
		{name: "once", steps: []step{{time.Second, 5 * time.Second}}, want: 6 * time.Second},
		{name: "again and again", steps: []step{{2 * time.Second, 3 * time.Second}, {4 * time.Second, 3 * time.Second}, {6 * time.Second, 3 * time.Second}}, want: 9 * time.Second},
		{name: "never shortens", steps: []step{{time.Second, time.Millisecond}}, want: 3 * time.Second},
		{name: "a long one stays", steps: []step{{time.Second, time.Hour}, {2 * time.Second, time.Second}}, want: time.Hour + time.Second},
		{name: "refused", errs: map[string]error{"extend": &txn.Error{Err: txn.ErrInvalid}}, steps: []step{{time.Second, time.Hour}}, want: 3 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &fakeManager{timeout: 3 * time.Second, errs: c.errs}
				began := time.Now()
				err := txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
					for _, st := range c.steps {
						<-time.After(st.at - time.Since(began))
						if err := tx.Extend(ctx, st.timeout); !errors.Is(err, c.errs["extend"]) {
							t.Errorf("extend: %v", err)
						}
					}
					<-ctx.Done()
					return context.Cause(ctx)
				})
				checkError(t, err, []error{txn.ErrRolledBack, txn.ErrTimedOut}, nil)
				if took := time.Since(began); took != c.want {
					t.Errorf("the work ended after %v, want %v", took, c.want)
				}
			})
		})
	}
}

// TestExtendAfterTheEnd does not call the coordinator.
func TestExtendAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeManager{timeout: time.Second}
		var kept *txn.Tx
		_ = txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
			kept = tx
			<-ctx.Done()
			if err := tx.Extend(context.WithoutCancel(ctx), time.Hour); !errors.Is(err, txn.ErrNotActive) {
				t.Errorf("extend when the time is over: %v", err)
			}
			return context.Cause(ctx)
		})
		if err := kept.Extend(t.Context(), time.Hour); !errors.Is(err, txn.ErrNotActive) {
			t.Errorf("extend after the end: %v", err)
		}
		if want := []string{"begin "}; !cmp.Equal(want, s.trace) {
			t.Errorf("story: %q", s.trace)
		}
	})
}

// TestExtendWithoutRun: there is no context whose deadline could be moved.
func TestExtendWithoutRun(t *testing.T) {
	s := &fakeManager{}
	tx, err := txn.Start(t.Context(), s, txn.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Extend(t.Context(), time.Hour); err != nil {
		t.Error(err)
	}
	if want := []string{"begin ", "extend 1h0m0s"}; !cmp.Equal(want, s.trace) {
		t.Errorf("story: %q", s.trace)
	}
}

// TestTimeOverHereButNotThere: another client has extended the transaction, so the coordinator
// would hold it open without need. Otherwise the coordinator records the cause by itself.
func TestTimeOverHereButNotThere(t *testing.T) {
	for _, c := range []struct {
		name        string
		info, later txn.Info
		want        []string
	}{
		{"extended elsewhere", txn.Info{ID: theID, State: txn.Active, ExpiresIn: txn.Duration(time.Hour)}, txn.Info{}, []string{"rollback: run " + theID.String() + ": transaction timed out (cause: timeout)", "done b1=rolled-back"}},
		{"about to time out", txn.Info{ID: theID, State: txn.Active, ExpiresIn: txn.Duration(time.Second)}, txn.Info{State: txn.RollingBack, Cause: txn.CauseTimeout}, []string{"wait"}},
		{"timed out", txn.Info{ID: theID, State: txn.RollingBack, Cause: txn.CauseTimeout}, txn.Info{}, nil},
		{"coordinator away", txn.Info{}, txn.Info{}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &fakeManager{timeout: time.Second, info: c.info, later: c.later, cause: txn.CauseClient}
				err := txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
					if _, err := s.join(ctx, tx, "bank"); err != nil {
						return err
					}
					<-ctx.Done()
					return context.Cause(ctx)
				})
				checkError(t, err, []error{txn.ErrRolledBack, txn.ErrTimedOut}, nil)
				want := append([]string{"begin ", "enlist bank session-of-bank", "bank rolls back", "bank releases"}, c.want...)
				if diff := cmp.Diff(want, s.trace); diff != "" {
					t.Errorf("story (-want +got):\n%s", diff)
				}
			})
		})
	}
}
