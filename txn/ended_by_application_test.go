package txn_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/txntest"
)

// endedResource is a resource whose branch its application has ended by statements of its own.
type endedResource struct {
	vote    txn.Vote // zero: as an error alone
	late    bool     // it votes yes, and its rollback finds out
	onePh   bool
	refused error
}

func (s endedResource) Prepare(context.Context) (txn.Vote, error) {
	switch {
	case s.late:
		return txn.VotePrepared, nil
	case s.vote == txn.VoteEndedByApplication:
		return s.vote, nil
	}
	return 0, s.refused
}
func (s endedResource) Commit(context.Context) error   { return s.refused }
func (s endedResource) Rollback(context.Context) error { return s.refused }
func (s endedResource) Release()                       {}
func (s endedResource) OnePhase() bool                 { return s.onePh }
func (s endedResource) CommitOnePhase(context.Context) (txn.BranchState, error) {
	return 0, s.refused
}

var errTyped = fmt.Errorf("%w: COMMIT was typed", txn.ErrEndedByApplication)

func (s endedResource) join(ctx context.Context, tx *txn.Tx) error {
	s.refused = errTyped
	_, err := txn.Join(ctx, tx, "left", func(ctx context.Context, enlist txn.EnlistFunc) (endedResource, error) {
		_, err := enlist(ctx, "", nil)
		return s, err
	})
	return err
}

// TestEveryApplicationGetsEndedByApplication: one of several applications ends its branch by
// statements of its own. Whatever the others do, and whenever they do it, none gets an error
// that says that nothing was applied, once the resource has reported it.
func TestEveryApplicationGetsEndedByApplication(t *testing.T) {
	boom := errors.New("boom")
	second := func(s endedResource, fails error) func(context.Context, *txntest.Manager, txn.ID) error {
		return func(ctx context.Context, m *txntest.Manager, id txn.ID) error {
			_, err := txn.RunIn(ctx, m, id, func(ctx context.Context, tx *txn.Tx) error {
				if err := s.join(ctx, tx); err != nil {
					return err
				}
				return fails
			})
			return err
		}
	}
	typers := map[string]func(context.Context, *txntest.Manager, txn.ID) error{
		"prepares":            second(endedResource{}, nil),
		"prepares, as a vote": second(endedResource{vote: txn.VoteEndedByApplication}, nil),
		"fails":               second(endedResource{}, boom),
	}
	firsts := map[string]func(ctx context.Context, tx *txn.Tx) error{
		"commits":   func(context.Context, *txn.Tx) error { return nil },
		"fails":     func(context.Context, *txn.Tx) error { return boom },
		"joins":     func(ctx context.Context, tx *txn.Tx) error { return joinIdle(ctx, tx, "late") },
		"extends":   func(ctx context.Context, tx *txn.Tx) error { return tx.Extend(ctx, time.Hour) },
		"in time":   func(ctx context.Context, _ *txn.Tx) error { <-ctx.Done(); return context.Cause(ctx) },
		"by itself": func(ctx context.Context, tx *txn.Tx) error { _ = tx.Rollback(ctx, "changed its mind"); return nil },
		"tries":     func(ctx context.Context, tx *txn.Tx) error { _ = tx.Commit(ctx); return nil },
	}
	for how, typer := range typers {
		for what, first := range firsts {
			t.Run(how+", "+what, inBubble(func(t *testing.T) {
				m := txntest.New(t)
				told := map[string]error{}
				var id txn.ID
				told["who began it"] = txn.Run(t.Context(), m, txn.Options{Timeout: time.Second}, func(ctx context.Context, tx *txn.Tx) error {
					id = tx.ID()
					if err := joinIdle(ctx, tx, "right"); err != nil {
						return err
					}
					third, err := txn.Attach(ctx, m, id)
					if err != nil {
						return err
					}
					if err := joinIdle(ctx, third, "third"); err != nil {
						return err
					}
					told["who typed it"] = typer(ctx, m, id)
					told["who prepares"] = third.Prepare(ctx)
					_, told["who attaches"] = txn.Attach(ctx, m, id)
					return first(ctx, tx)
				})
				_, told["who commits"] = m.Commit(t.Context(), id, txn.CommitRequest{})
				_, told["who rolls back"] = m.Rollback(t.Context(), id, "late")
				for who, err := range told {
					if !errors.Is(err, txn.ErrEndedByApplication) && what != "tries" || errors.Is(err, txn.ErrRolledBack) {
						t.Errorf("%s is told that %v; want %v", who, err, txn.ErrEndedByApplication)
					}
				}
			}))
		}
	}
}

// TestEndedByApplicationIsRecordedLate: the coordinator learns it when the rollback has been decided
// already, or when the decision was delegated.
func TestEndedByApplicationIsRecordedLate(t *testing.T) {
	for name, do := range map[string]func(ctx context.Context, m *txntest.Manager) (txn.ID, error){
		"follow": func(ctx context.Context, m *txntest.Manager) (txn.ID, error) {
			begun, err := m.Begin(ctx, txn.Options{})
			if err != nil {
				return begun.ID, err
			}
			tx, err := txn.RunIn(ctx, m, begun.ID, endedResource{late: true}.join)
			if err == nil {
				_, err = m.Rollback(ctx, begun.ID, "changed its mind")
			}
			if err == nil {
				err = tx.Complete(ctx)
			}
			return begun.ID, err
		},
		"commit": func(ctx context.Context, m *txntest.Manager) (id txn.ID, err error) {
			err = txn.Run(ctx, m, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
				id = tx.ID()
				if err := (endedResource{late: true}).join(ctx, tx); err != nil {
					return err
				}
				_, err := m.Rollback(ctx, id, "somebody else's")
				return err
			})
			return id, err
		},
		"one phase": func(ctx context.Context, m *txntest.Manager) (id txn.ID, err error) {
			err = txn.Run(ctx, m, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
				id = tx.ID()
				return endedResource{onePh: true}.join(ctx, tx)
			})
			return id, err
		},
	} {
		t.Run(name, inBubble(func(t *testing.T) {
			m := txntest.New(t)
			m.Service("left", func(_ context.Context, c txntest.Call) (txn.Vote, error) { return txn.VoteReadOnly, nil })
			if name == "one phase" {
				m = txntest.New(t) // left is to be prepared by the application
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			id, err := do(ctx, m)
			if !errors.Is(err, txn.ErrEndedByApplication) || errors.Is(err, txn.ErrRolledBack) {
				t.Errorf("who typed it is told that %v", err)
			}
			info, err := m.Get(ctx, id)
			if err != nil || !info.EndedByApplication() {
				t.Errorf("%+v, %v", info, err)
			}
			if _, err := m.Commit(ctx, id, txn.CommitRequest{}); name != "one phase" && !errors.Is(err, txn.ErrEndedByApplication) || errors.Is(err, txn.ErrRolledBack) {
				t.Errorf("who commits is told that %v", err)
			}
		}))
	}
}

// inBubble runs a test in a bubble, where waiting takes no time.
func inBubble(f func(*testing.T)) func(*testing.T) {
	return func(t *testing.T) { synctest.Test(t, f) }
}

// joinIdle joins with a resource that has nothing to do.
func joinIdle(ctx context.Context, tx *txn.Tx, name string) error {
	_, err := txn.Join(ctx, tx, name, func(ctx context.Context, enlist txn.EnlistFunc) (idleResource, error) {
		_, err := enlist(ctx, "", nil)
		return idleResource{}, err
	})
	return err
}

type idleResource struct{}

func (idleResource) Prepare(context.Context) (txn.Vote, error) { return txn.VotePrepared, nil }
func (idleResource) Commit(context.Context) error              { return nil }
func (idleResource) Rollback(context.Context) error            { return nil }
func (idleResource) Release()                                  {}
