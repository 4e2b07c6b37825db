package retry_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/retry"
	"github.com/txmgr/txmgr/txn/txntest"
)

func TestRetryable(t *testing.T) {
	rolledBack := func(because error) error {
		return &txn.Error{Op: "run", Err: fmt.Errorf("%w: %w", txn.ErrRolledBack, because)}
	}
	deadlock := &pgconn.PgError{Code: "40P01"}
	for _, c := range []struct {
		name string
		err  error
		want bool
	}{
		{"nil", nil, false},
		{"PostgreSQL, serialization", rolledBack(&pgconn.PgError{Code: "40001"}), true},
		{"PostgreSQL, deadlock", rolledBack(deadlock), true},
		{"PostgreSQL, constraint", rolledBack(&pgconn.PgError{Code: "23514"}), false},
		{"MariaDB, deadlock", rolledBack(&mysql.MySQLError{Number: 1213}), true},
		{"MariaDB, changed since", rolledBack(&mysql.MySQLError{Number: 1020}), true},
		{"MariaDB, duplicate", rolledBack(&mysql.MySQLError{Number: 1062}), false},
		{"not known to be rolled back", deadlock, false},
		{"in doubt", &txn.Error{Op: "commit", Err: fmt.Errorf("%w: %w", txn.ErrInDoubt, deadlock)}, false},
		{"ended by the application", &txn.Error{Op: "run", Err: fmt.Errorf("%w: %w", txn.ErrEndedByApplication, deadlock)}, false},
		{"forgotten", &txn.Error{Op: "begin", Err: fmt.Errorf("%w: %w", txn.ErrForgotten, deadlock)}, false},
		{"heuristic, though rolled back", errors.Join(rolledBack(deadlock), txn.ErrHeuristic), false},
		{"begin unavailable", &txn.Error{Op: "begin", Err: txn.ErrUnavailable}, true},
		{"begin denied", &txn.Error{Op: "begin", Err: txn.ErrDenied}, false},
		{"commit unavailable", &txn.Error{Op: "commit", Err: txn.ErrUnavailable}, false},
		{"unavailable, and rolled back", rolledBack(txn.ErrUnavailable), true},
		{"begin of another transaction", fmt.Errorf("tx has ended: %w", &txn.Error{Op: "begin", Err: txn.ErrUnavailable}), false},
		{"timed out in a deadlock", &txn.Error{Op: "run", Cause: txn.CauseTimeout, Err: fmt.Errorf("%w: %w", txn.ErrRolledBack, deadlock)}, false},
		{"timed out", rolledBack(txn.ErrTimedOut), false},
		{"voted no", rolledBack(txn.ErrVotedNo), false},
	} {
		if got := retry.Retryable(c.err); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// failing is work that fails n times, and counts how often it ran.
type failing struct {
	err   error
	n, to int
	ids   map[txn.ID]bool
}

func (f *failing) work(_ context.Context, tx *txn.Tx) error {
	f.n++
	if f.ids == nil {
		f.ids = map[txn.ID]bool{}
	}
	f.ids[tx.ID()] = true
	if f.n <= f.to {
		return f.err
	}
	return nil
}

func TestRunRepeats(t *testing.T) {
	deadlock, constraint := &pgconn.PgError{Code: "40P01"}, &pgconn.PgError{Code: "23514"}
	for _, c := range []struct {
		name     string
		f        failing
		policy   retry.Policy
		want     error
		attempts int
	}{
		{"until it works", failing{err: deadlock, to: 3}, retry.Policy{}, nil, 4},
		{"no more than it may", failing{err: deadlock, to: 9}, retry.Policy{}, deadlock, 5},
		{"once", failing{err: deadlock, to: 9}, retry.Policy{Attempts: 1}, deadlock, 1},
		{"not what stays", failing{err: constraint, to: 9}, retry.Policy{}, constraint, 1},
		{"what the application says", failing{err: constraint, to: 1}, retry.Policy{Also: func(err error) bool { return errors.Is(err, constraint) }}, nil, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				err := retry.Run(t.Context(), txntest.New(t), txn.Options{Name: "order"}, c.policy, c.f.work)
				if !errors.Is(err, c.want) || c.want != nil && !errors.Is(err, txn.ErrRolledBack) || c.f.n != c.attempts || len(c.f.ids) != c.attempts {
					t.Errorf("%v after %d attempts in %d transactions; want %v after %d", err, c.f.n, len(c.f.ids), c.want, c.attempts)
				}
			})
		})
	}
}

// TestRunWaitsLongerEachTime, at most twice the mean, and not beyond its context.
func TestRunWaitsLongerEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, f := txntest.New(t), failing{err: &pgconn.PgError{Code: "40001"}, to: 99}
		began := time.Now()
		err := retry.Run(t.Context(), m, txn.Options{}, retry.Policy{Attempts: 12, Wait: time.Second, MaxWait: 8 * time.Second}, f.work)
		most := 2 * (1 + 2 + 4 + 8*8) * time.Second
		if took := time.Since(began); !errors.Is(err, txn.ErrRolledBack) || f.n != 12 || took > most || took < most/10 {
			t.Errorf("%v: %d attempts in %v, at most %v", err, f.n, took, most)
		}

		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began, f.n = time.Now(), 0
		err = retry.Run(ctx, m, txn.Options{}, retry.Policy{Attempts: 99, Wait: time.Second, MaxWait: time.Second}, f.work)
		if took := time.Since(began); !errors.Is(err, f.err) || took > 5*time.Second || f.n > 90 || f.n < 2 {
			t.Errorf("%v: %d attempts in %v", err, f.n, took)
		}
	})
}

// TestRunInATransactionRunsOnce: only who began it can repeat it.
func TestRunInATransactionRunsOnce(t *testing.T) {
	m, inner := txntest.New(t), failing{err: &pgconn.PgError{Code: "40001"}, to: 99}
	outer := 0
	err := retry.Run(t.Context(), m, txn.Options{}, retry.Policy{Attempts: 3, Wait: time.Microsecond}, func(ctx context.Context, _ *txn.Tx) error {
		outer++
		return retry.Run(ctx, m, txn.Options{}, retry.Policy{}, inner.work)
	})
	if !errors.Is(err, inner.err) || outer != 3 || inner.n != 3 || len(inner.ids) != 3 {
		t.Errorf("%v: the outer function ran %d times, the inner one %d times in %d transactions", err, outer, inner.n, len(inner.ids))
	}
}

// TestRunBesideATransactionOfAnotherManager repeats its own, as any.
func TestRunBesideATransactionOfAnotherManager(t *testing.T) {
	m, other, f := txntest.New(t), txntest.New(t), failing{err: &pgconn.PgError{Code: "40001"}, to: 1}
	err := txn.Run(t.Context(), other, txn.Options{}, func(ctx context.Context, _ *txn.Tx) error {
		return retry.Run(ctx, m, txn.Options{}, retry.Policy{Wait: time.Microsecond}, f.work)
	})
	if err != nil || f.n != 2 {
		t.Error(err, f.n)
	}
}

// TestRunDoesNotRepeatWhatWasCommitted by the function itself, whatever that returns afterwards.
func TestRunDoesNotRepeatWhatWasCommitted(t *testing.T) {
	m, other := txntest.New(t), txntest.New(t)
	deadlock := &pgconn.PgError{Code: "40P01"}
	for name, after := range map[string]func(context.Context) error{
		"another transaction was rolled back": func(context.Context) error {
			return txn.Run(t.Context(), other, txn.Options{}, func(context.Context, *txn.Tx) error { return deadlock })
		},
		"another begin": func(context.Context) error { return &txn.Error{Op: "begin", Err: txn.ErrUnavailable} },
		"words of the library": func(context.Context) error {
			return fmt.Errorf("%w: %w", txn.ErrRolledBack, backoff.RetryAfter(1))
		},
	} {
		commits := 0
		err := retry.Run(t.Context(), m, txn.Options{}, retry.Policy{Also: func(error) bool { return true }}, func(ctx context.Context, tx *txn.Tx) error {
			if err := tx.Commit(ctx); err != nil {
				return err
			}
			commits++
			return after(ctx)
		})
		if err == nil || errors.Is(err, txn.ErrRolledBack) || retry.Retryable(err) || commits != 1 {
			t.Errorf("%s: %v, after %d commits", name, err, commits)
		}
	}
}

// TestRunIgnoresWhatTheLibraryReads in an error of the application.
func TestRunIgnoresWhatTheLibraryReads(t *testing.T) {
	for _, odd := range []error{backoff.RetryAfter(3600), backoff.Permanent(errors.New("odd"))} {
		synctest.Test(t, func(t *testing.T) {
			f, began := failing{err: fmt.Errorf("%w: %w", &pgconn.PgError{Code: "40001"}, odd), to: 2}, time.Now()
			if err := retry.Run(t.Context(), txntest.New(t), txn.Options{}, retry.Policy{}, f.work); err != nil || f.n != 3 || time.Since(began) > time.Second {
				t.Error(err, f.n, time.Since(began))
			}
		})
	}
}

func TestRunRefusesAnID(t *testing.T) {
	id, f := txn.NewID(time.Now(), [9]byte{1}), failing{}
	if err := retry.Run(t.Context(), txntest.New(t), txn.Options{ID: id}, retry.Policy{}, f.work); !errors.Is(err, txn.ErrInvalid) || f.n != 0 {
		t.Error(err, f.n)
	}
}
