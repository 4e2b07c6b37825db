package txntest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/txntest"
)

// TestTransactionIsSentWithItsFirstBranch, or when its id is asked for, and not before; one that
// ends without either is never sent.
func TestTransactionIsSentWithItsFirstBranch(t *testing.T) {
	withShop(t, func(t *testing.T, h *shopFixture) {
		sent := func(want int, when string) {
			t.Helper()
			synctest.Wait()
			if n := len(h.Transactions()); n != want {
				t.Errorf("%s: %d transactions are known, want %d", when, n, want)
			}
		}
		is(t, txn.Run(t.Context(), h.Manager, txn.Options{}, func(context.Context, *txn.Tx) error { return nil }))
		sent(0, "without a branch")
		is(t, txn.Run(t.Context(), h.Manager, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
			sent(0, "before its first branch")
			is(t, h.order(ctx, tx))
			<-time.After(time.Millisecond)
			sent(1, "with branches")
			return nil
		}))
		is(t, txn.Run(t.Context(), h.Manager, txn.Options{}, func(_ context.Context, tx *txn.Tx) error {
			if id := tx.ID(); id.String() != tx.String() {
				t.Errorf("%v is named %v", id, tx)
			}
			sent(2, "whose id is known")
			return nil
		}))
		if h.Outcome(h.Transactions()[1].ID).State != txn.Committed {
			t.Error("a transaction without branches whose id is known is not committed")
		}
	})
}

// TestBeginThatHangs: the caller's deadline ends the transaction, no branch has prepared, and
// nothing is in doubt.
func TestBeginThatHangs(t *testing.T) {
	withShop(t, func(t *testing.T, h *shopFixture) {
		h.Fail("begin", txntest.Hang)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		var id txn.ID
		err := txn.Run(ctx, h.Manager, txn.Options{}, func(ctx context.Context, tx *txn.Tx) (err error) {
			id, err = txn.ParseID(tx.String())
			return errors.Join(err, h.order(ctx, tx))
		})
		is(t, err, txn.ErrRolledBack, txn.ErrTimedOut)
		if errors.Is(err, txn.ErrInDoubt) {
			t.Error(err)
		}
		for _, d := range []*txntest.Database{h.bank, h.stock} {
			if calls := d.Calls(id); len(calls) != 2 || calls[0] != "exec" || calls[1] != "rollback" {
				t.Errorf("%q", calls)
			}
		}
		if _, err := h.Get(t.Context(), id); !errors.Is(err, txn.ErrNotFound) {
			t.Errorf("the coordinator has heard of it: %v", err)
		}
	})
}

// TestBranchesMayBeAppointed, as at a coordinator of this release.
func TestBranchesMayBeAppointed(t *testing.T) {
	m := txntest.New(t)
	if n, ok := m.NameTransaction(t.Context(), txn.Options{}); !ok || !n.Appoints {
		t.Errorf("%+v, %v", n, ok)
	}
	if b, err := m.Begin(t.Context(), txn.Options{}); err != nil || !b.Appoints {
		t.Errorf("%+v, %v", b, err)
	}
}
