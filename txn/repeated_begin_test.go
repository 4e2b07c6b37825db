package txn_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// TestSameIDCommittedByAnother: two processes begin the transaction of one id, as a repeated
// begin does. One commits; the deadline of the other passes. That is no rollback, and it is not
// known to be one where the coordinator is not reached either.
func TestSameIDCommittedByAnother(t *testing.T) {
	o := txn.Options{ID: theID}
	lingers := func(ctx context.Context, s *fakeManager) error {
		return txn.Run(ctx, s, o, func(ctx context.Context, tx *txn.Tx) error {
			if _, err := s.join(ctx, tx, "bank"); err != nil {
				return err
			}
			<-ctx.Done()
			return context.Cause(ctx)
		})
	}
	fails := func(ctx context.Context, s *fakeManager) error {
		return txn.Run(ctx, s, o, func(context.Context, *txn.Tx) error { return errors.New("boom") })
	}
	decided := &txn.Error{Op: "rollback", ID: theID, State: txn.Committed, Err: txn.ErrConflict}
	for name, c := range map[string]struct {
		run  func(context.Context, *fakeManager) error
		info txn.Info
		tell error
		want error
	}{
		"its deadline has passed":              {lingers, txn.Info{ID: theID, State: txn.Committed}, decided, txn.ErrConflict},
		"its deadline has passed, unreachable": {lingers, txn.Info{}, txn.ErrUnavailable, txn.ErrInDoubt},
		"it fails":                             {fails, txn.Info{}, decided, txn.ErrConflict},
		"it fails, unreachable":                {fails, txn.Info{}, txn.ErrUnavailable, txn.ErrInDoubt},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &fakeManager{timeout: 3 * time.Second, info: c.info, errs: map[string]error{"rollback": c.tell}}
				err := c.run(t.Context(), s)
				claims(t, err)
				checkError(t, err, []error{c.want}, []error{txn.ErrRolledBack, txn.ErrTimedOut})
			})
		})
	}
}

// TestAnIgnoredRollback: the function ends the transaction itself, ignores the error, and
// returns nil. The error of Run is the one that the function could have seen.
func TestAnIgnoredRollback(t *testing.T) {
	rolls := func(ctx context.Context, tx *txn.Tx) { _ = tx.Rollback(ctx, "changed its mind") }
	commits := func(ctx context.Context, tx *txn.Tx) { _ = tx.Commit(ctx) }
	for name, c := range map[string]struct {
		end   func(context.Context, *txn.Tx)
		given bool // the id is passed on
		tell  error
		want  error
	}{
		"it is told":                    {rolls, true, nil, txn.ErrRolledBack},
		"alone, unreachable":            {rolls, false, txn.ErrUnavailable, txn.ErrRolledBack},
		"with others, unreachable":      {rolls, true, txn.ErrUnavailable, txn.ErrInDoubt},
		"committed by another":          {rolls, true, txn.ErrConflict, txn.ErrConflict},
		"a commit that fails":           {commits, true, nil, txn.ErrRolledBack},
		"a commit, unreachable":         {commits, true, txn.ErrUnavailable, txn.ErrInDoubt},
		"a commit, committed by others": {commits, true, txn.ErrConflict, txn.ErrConflict},
	} {
		t.Run(name, func(t *testing.T) {
			s := &fakeManager{
				info: txn.Info{ID: theID, State: txn.Active, ExpiresIn: txn.Duration(time.Hour)},
				errs: map[string]error{"rollback": c.tell, "bank prepares": errors.New("disk full")},
			}
			err := txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
				if c.given {
					txn.Inject(header{}, tx)
				}
				if _, err := s.join(ctx, tx, "bank"); err != nil {
					return err
				}
				c.end(ctx, tx)
				return nil
			})
			claims(t, err)
			if !errors.Is(err, c.want) {
				t.Errorf("Run says %v, want %v", err, c.want)
			}
		})
	}
}

// TestDeadlineOfACall: the context of a single call ends before the transaction's deadline. The
// rollback is reported to the coordinator, and its cause is not the timeout.
func TestDeadlineOfACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeManager{timeout: time.Hour, info: txn.Info{ID: theID, State: txn.Active, ExpiresIn: txn.Duration(time.Millisecond)}}
		tx, err := txn.Start(t.Context(), s, txn.Options{Timeout: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.join(t.Context(), tx, "bank"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		<-ctx.Done()
		err = tx.Commit(ctx)
		checkError(t, err, []error{txn.ErrRolledBack, context.DeadlineExceeded}, []error{txn.ErrTimedOut})
		if told := s.told(); !strings.Contains(told, "rollback: ") {
			t.Errorf("the coordinator was not told:\n%s", told)
		}
	})
}
