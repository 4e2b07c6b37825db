package mariadb

import (
	"context"
	"fmt"
	"testing"

	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/txn"
)

// TestReturnOnDecision: the one connection of each pool serves the next transaction when the one
// before has been completed, in the background.
func TestReturnOnDecision(t *testing.T) {
	s := newShops(t)
	s.bank.pool.SetMaxOpenConns(1)
	s.shop.pool.SetMaxOpenConns(1)
	for range 20 {
		check(t, txn.Run(t.Context(), s, txn.Options{ReturnOnDecision: true}, func(ctx context.Context, tx *txn.Tx) error {
			return s.move(ctx, tx, 1)
		}))
	}
	s.want(t, 80, 120)
	for _, b := range []*bank{s.bank, s.shop} {
		if st := b.pool.Stats(); st.MaxLifetimeClosed+st.MaxIdleClosed != 0 || st.OpenConnections != 1 {
			t.Errorf("%+v", st)
		}
	}
	waittest.NoError(t, func() error {
		if left := s.Unreported(s.Last()); len(left) != 0 {
			return fmt.Errorf("not reported: %v", left)
		}
		return nil
	})
}
