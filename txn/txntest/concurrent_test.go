package txntest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/txntest"
)

// TestManyAtOnce: with faults everywhere, every transaction ends, its
// branches end alike, and the effects are those of the committed ones.
func TestManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := txntest.New(t)
		bank, stock := m.Database("bank"), m.Database("stock")
		var paid, sold int
		faults := []txntest.Fault{txntest.Unreachable, txntest.ResponseLost, txntest.Hang}
		for i := range 60 {
			f := faults[i%3]
			bank.Fail([]string{"exec", "prepare", "commit", "rollback"}[i%4], f)
			stock.Fail([]string{"exec", "prepare", "commit", "rollback"}[(i+1)%4], f)
			m.Fail([]string{"enlist", "commit", "rollback", "vote", "done"}[i%5], faults[i%2])
		}
		var all sync.WaitGroup
		for range 300 {
			all.Go(func() {
				err := txn.Run(t.Context(), m, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
					return errors.Join(
						bank.Exec(ctx, tx, func() { paid++ }),
						stock.Exec(ctx, tx, func() { sold++ }),
					)
				})
				if err != nil && !errors.Is(err, txn.ErrRolledBack) && !errors.Is(err, txn.ErrInDoubt) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		committed := 0
		for _, tx := range m.Transactions() {
			out := m.Outcome(tx.ID)
			if out.State.Commits() {
				committed++
			}
			for _, r := range []*txntest.Database{bank, stock} {
				if at := r.State(tx.ID); at != 0 && (at == txn.BranchCommitted) != out.State.Commits() {
					t.Errorf("%v is %v, a branch is %v", tx.ID, out.State, at)
				}
			}
		}
		if paid != committed || sold != committed || committed < 100 || committed > 299 {
			t.Errorf("%d of 300 committed, %d paid, %d sold", committed, paid, sold)
		}
		if err := m.CheckInvariants(); err != nil || len(m.Unfinished()) != 0 {
			t.Errorf("%v, undone: %d", err, len(m.Unfinished()))
		}
	})
}
