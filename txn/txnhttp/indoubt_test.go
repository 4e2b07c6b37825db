package txnhttp_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/txnhttp"
	"github.com/txmgr/txmgr/txn/txntest"
)

// TestRollbackThatDoesNotArrive: a handler that failed before it did any work has not surely
// rolled back the caller's transaction when the coordinator was not reached.
func TestRollbackThatDoesNotArrive(t *testing.T) {
	p := services(t, txnhttp.Options{}, func(*pair) http.HandlerFunc { return http.NotFound })
	p.Fail("rollback", txntest.Unreachable)
	is(t, txn.Run(t.Context(), p.Manager, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
		is(t, p.bank.Exec(ctx, tx, func() { p.paid++; p.sold++ }))
		a, err := p.call(ctx)
		is(t, err)
		if a.status != http.StatusNotFound || a.outcome != "" {
			t.Errorf("%+v", a)
		}
		return nil
	}))
	p.ends(t, txn.Committed)
}
