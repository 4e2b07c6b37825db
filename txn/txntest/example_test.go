package txntest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/txntest"
)

// exampleT stands for the t of a test, which an example does not have.
type exampleT struct {
	testing.TB
	cleanup func()
}

func (*exampleT) Helper()            {}
func (t *exampleT) Cleanup(f func()) { t.cleanup = f }

// A customer orders two things, and the second is sold out.
func Example() {
	t := new(exampleT) // in a test: its own t
	m := txntest.New(t)
	defer t.cleanup()
	bank, stock := m.Database("bank"), m.Database("stock")

	balance, items := 100, 2
	order := func() error {
		return txn.Run(context.Background(), m, txn.Options{Name: "order"}, func(ctx context.Context, tx *txn.Tx) error {
			if err := bank.Exec(ctx, tx, func() { balance -= 10 }); err != nil {
				return err
			}
			return stock.Exec(ctx, tx, func() { items-- })
		})
	}

	fmt.Println(order())
	stock.VoteNo("sold out")
	fmt.Println(errors.Is(order(), txn.ErrVotedNo))

	for _, tx := range m.Transactions() {
		fmt.Printf("%v: bank %v, stock %v\n", m.Outcome(tx.ID).State, bank.State(tx.ID), stock.State(tx.ID))
	}
	fmt.Println(balance, items)
	// Output:
	// <nil>
	// true
	// committed: bank committed, stock committed
	// rolled-back: bank rolled-back, stock rolled-back
	// 90 1
}
