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

func TestNestedRunJoins(t *testing.T) {
	s := &fakeManager{}
	err := txn.Run(t.Context(), s, txn.Options{Name: "outer"}, func(ctx context.Context, outer *txn.Tx) error {
		return txn.Run(ctx, s, txn.Options{Name: "inner"}, func(ctx context.Context, inner *txn.Tx) error {
			if inner != outer {
				t.Error("another transaction")
			}
			return s.works(ctx, inner)
		})
	})
	want := "begin outer\nenlist bank session-of-bank\nbank prepares\ncommit b1=prepared own=true\nbank commits\nbank releases\ndone b1=committed"
	if err != nil || s.told() != want {
		t.Errorf("%v:\n%s", err, s.told())
	}
}

func TestNestedRunOfAnotherManagerDoesNotJoin(t *testing.T) {
	s, other := &fakeManager{}, &fakeManager{}
	err := txn.Run(t.Context(), s, txn.Options{Name: "outer"}, func(ctx context.Context, _ *txn.Tx) error {
		return txn.Run(ctx, other, txn.Options{Name: "inner"}, func(context.Context, *txn.Tx) error { return nil })
	})
	if err != nil || !strings.HasPrefix(other.told(), "begin inner\ncommit") {
		t.Errorf("%v:\n%s", err, other.told())
	}
}

// TestNestedFailureCannotBeOverlooked: the work of the nested function is done in part, and
// cannot be undone alone.
func TestNestedFailureCannotBeOverlooked(t *testing.T) {
	for name, nested := range map[string]func(context.Context, *txn.Tx) error{
		"error": func(context.Context, *txn.Tx) error { return errOut },
		"panic": func(context.Context, *txn.Tx) error { panic(errOut) },
	} {
		t.Run(name, func(t *testing.T) {
			s := &fakeManager{}
			err := txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
				if err := s.works(ctx, tx); err != nil {
					return err
				}
				defer func() { _ = recover() }()
				_ = txn.Run(ctx, s, txn.Options{}, nested)
				return nil
			})
			if !errors.Is(err, txn.ErrRolledBack) || errors.Is(err, txn.ErrVotedNo) || strings.Contains(s.told(), "prepares") {
				t.Errorf("%v:\n%s", err, s.told())
			}
			if name == "error" && !errors.Is(err, errOut) {
				t.Errorf("%v does not say why", err)
			}
		})
	}
}

// TestTheCallersDeadlineIsTheTransactions: the shortest deadline counts.
func TestTheCallersDeadlineIsTheTransactions(t *testing.T) {
	for name, c := range map[string]struct{ asked, left, want time.Duration }{
		"no deadline":                   {0, 0, 0},
		"sooner than the default":       {0, 5 * time.Second, 5 * time.Second},
		"later than the default":        {0, time.Minute, 0},
		"sooner than what is asked for": {time.Minute, 40 * time.Second, 40 * time.Second},
		"later than what is asked for":  {time.Second, 40 * time.Second, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if c.left > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.left)
					defer cancel()
				}
				s := &spyManager{}
				err := txn.Run(ctx, s, txn.Options{Timeout: c.asked}, func(context.Context, *txn.Tx) error { return nil })
				if err != nil || s.options.Timeout != c.want {
					t.Errorf("%v; asked for %v, want %v", err, s.options.Timeout, c.want)
				}
			})
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), -1)
	defer cancel()
	s := &spyManager{}
	if err := txn.Run(ctx, s, txn.Options{}, nil); !errors.Is(err, context.DeadlineExceeded) || s.told() != "" {
		t.Errorf("%v: %s", err, s.told())
	}
}

// spyManager records how it was asked to begin.
type spyManager struct {
	fakeManager
	options txn.Options
}

func (s *spyManager) Begin(ctx context.Context, o txn.Options) (txn.BeginResult, error) {
	s.options = o
	return s.fakeManager.Begin(ctx, o)
}
