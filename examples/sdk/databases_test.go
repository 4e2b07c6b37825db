package sdk

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/participant/mariadb"
	"github.com/txmgr/txmgr/participant/postgres"
	"github.com/txmgr/txmgr/txn"
)

// Two databases, one transaction. Returning nil commits both; an error rolls both
// back.
func Example() {
	reset()
	m, err := client.Dial(address) // "http://127.0.0.1:7460", as a rule
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	bank, stock := postgres.New("bank", pool), mariadb.New("stock", db)

	order := func(ctx context.Context, price int) error {
		return txn.Run(ctx, m, txn.Options{Name: "order", Timeout: 30 * time.Second}, func(ctx context.Context, tx *txn.Tx) error {
			if _, err := stock.Exec(ctx, tx, `UPDATE item SET n = n - 1 WHERE id = ?`, 7); err != nil {
				return err
			}
			_, err := bank.Exec(ctx, tx, `UPDATE account SET balance = balance - $1 WHERE id = $2`, price, 1)
			return err
		})
	}
	fmt.Println(order(context.Background(), 10))
	show()
	err = order(context.Background(), 1000) // more than there is: a CHECK of the table
	fmt.Println(errors.Is(err, txn.ErrRolledBack))
	show()
	// Output:
	// <nil>
	// balance 90, items 2, letters 0
	// true
	// balance 90, items 2, letters 0
}

// The transaction of the database driver can be passed to libraries that need one. Committing it
// manually is refused.
func Example_tx() {
	reset()
	m, err := client.Dial(address)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	bank := postgres.New("bank", pool)
	err = txn.Run(context.Background(), m, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
		pgxTx, err := bank.Tx(ctx, tx)
		if err != nil {
			return err
		}
		if _, err := pgxTx.Exec(ctx, `UPDATE account SET balance = 0`); err != nil {
			return err
		}
		return pgxTx.Commit(ctx)
	})
	fmt.Println(errors.Is(err, txn.ErrManaged), errors.Is(err, txn.ErrRolledBack))
	show()
	// Output:
	// true true
	// balance 100, items 3, letters 0
}

// A transaction that is not finished before its timeout is rolled back by the coordinator, and its
// context ends.
func Example_timeout() {
	reset()
	m, err := client.Dial(address)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	stock := mariadb.New("stock", db)
	err = txn.Run(context.Background(), m, txn.Options{Timeout: 300 * time.Millisecond}, func(ctx context.Context, tx *txn.Tx) error {
		if _, err := stock.Exec(ctx, tx, `UPDATE item SET n = n - 1 WHERE id = 7`); err != nil {
			return err
		}
		<-ctx.Done() // something takes too long
		return context.Cause(ctx)
	})
	fmt.Println(errors.Is(err, txn.ErrTimedOut), errors.Is(err, txn.ErrRolledBack))
	show()
	// Output:
	// true true
	// balance 100, items 3, letters 0
}

// The answer need not await phase two. The work is committed, and is to be seen a moment later.
func Example_returnOnDecision() {
	reset()
	m, err := client.Dial(address)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	bank, stock := postgres.New("bank", pool), mariadb.New("stock", db)

	var id txn.ID
	order := func(ctx context.Context, tx *txn.Tx) error {
		id = tx.ID()
		if _, err := stock.Exec(ctx, tx, `UPDATE item SET n = n - 1 WHERE id = 7`); err != nil {
			return err
		}
		_, err := bank.Exec(ctx, tx, `UPDATE account SET balance = balance - 10 WHERE id = 1`)
		return err
	}
	err = txn.Run(context.Background(), m, txn.Options{Name: "order", ReturnOnDecision: true}, order)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	info, err := m.Wait(ctx, id, txn.UntilFinished) // only to read what was written, or to learn of a heuristic outcome
	fmt.Println(info.State, info.Heuristic == 0, err)
	show()
	// Output:
	// committed true <nil>
	// balance 90, items 2, letters 0
}

// Example_lastDecides has the last of two databases decide.
func Example_lastDecides() {
	reset()
	m, err := client.Dial(address)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	bank, stock := postgres.New("bank", pool), mariadb.New("stock", db)

	var tx *txn.Tx
	order := func(ctx context.Context, now *txn.Tx) error {
		tx = now
		if _, err := bank.Exec(ctx, tx, `UPDATE account SET balance = balance - 10 WHERE id = 1`); err != nil {
			return err
		}
		_, err := stock.Exec(ctx, tx, `UPDATE item SET n = n - 1 WHERE id = 7`)
		return err
	}
	for range 2 { // the first one is begun by a call: the log decides it
		err = txn.Run(context.Background(), m, txn.Options{Name: "order", LastDecides: true}, order)
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	info, err := m.Wait(context.Background(), tx.ID(), txn.UntilFinished)
	fmt.Println(info.State, info.Branches[0].Vote, info.Branches[1].Vote, err)
	show()
	// Output:
	// committed prepared delegated <nil>
	// balance 80, items 1, letters 0
}
