package sdk

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/internal/faultproxy"
	"github.com/txmgr/txmgr/participant/mariadb"
	"github.com/txmgr/txmgr/participant/postgres"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/retry"
)

// Two transactions read the same balance, and each writes what it has computed from it. The database
// refuses the second, whose work is done again.
func Example_retry() {
	reset()
	m, err := client.Dial(address)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	bank := postgres.New("bank", pool)
	bank.TxOptions.IsoLevel = pgx.Serializable

	var read, done sync.WaitGroup
	read.Add(2)
	meet := func() { read.Done(); read.Wait() }
	withdraw := func() {
		first := true
		err := retry.Run(context.Background(), m, txn.Options{Name: "withdraw"}, retry.Policy{}, func(ctx context.Context, tx *txn.Tx) error {
			var balance int
			if err := bank.QueryRow(ctx, tx, `SELECT balance FROM account WHERE id = 1`).Scan(&balance); err != nil {
				return err
			}
			if first { // only so that the two meet
				first = false
				meet()
			}
			_, err := bank.Exec(ctx, tx, `UPDATE account SET balance = $1 WHERE id = 1`, balance-10)
			return err
		})
		fmt.Println(err)
	}
	done.Go(withdraw)
	done.Go(withdraw)
	done.Wait()
	show()
	// Output:
	// <nil>
	// <nil>
	// balance 80, items 3, letters 0
}

// TestRetryAfterADeadlock of two transactions in MariaDB, of which the server ends one.
func TestRetryAfterADeadlock(t *testing.T) {
	reset()
	if _, err := db.ExecContext(t.Context(), `INSERT INTO item VALUES (8, 3)`); err != nil {
		t.Fatal(err)
	}
	defer db.Exec(`DELETE FROM item WHERE id = 8`)
	m, err := client.Dial(address)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	stock := mariadb.New("stock", db)
	var locked, done sync.WaitGroup
	locked.Add(2)
	attempts := [2]int{}
	for i, items := range [][]int{{7, 8}, {8, 7}} {
		done.Go(func() {
			err := retry.Run(t.Context(), m, txn.Options{}, retry.Policy{}, func(ctx context.Context, tx *txn.Tx) error {
				attempts[i]++
				for n, item := range items {
					if _, err := stock.Exec(ctx, tx, `UPDATE item SET n = n - 1 WHERE id = ?`, item); err != nil {
						return err
					}
					if attempts[i] == 1 && n == 0 {
						locked.Done()
						locked.Wait()
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	done.Wait()
	var left int
	if err := db.QueryRowContext(t.Context(), `SELECT sum(n) FROM item`).Scan(&left); err != nil || left != 2 || attempts[0]+attempts[1] < 3 {
		t.Errorf("%d left, %v; attempts %v", left, err, attempts)
	}
}

// TestRetryWhileThereIsNoCoordinator: the begin is repeated, and the work that nothing will come of is
// done again, until the policy ends that.
func TestRetryWhileThereIsNoCoordinator(t *testing.T) {
	reset()
	line, err := faultproxy.New("127.0.0.1:0", strings.TrimPrefix(address, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer line.Close()
	m, err := client.Open(client.Config{Address: "http://" + line.Address(), RequestTimeout: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	bank, attempts := postgres.New("bank", pool), 0
	work := func(ctx context.Context, tx *txn.Tx) error {
		attempts++
		_, err := bank.Exec(ctx, tx, `UPDATE account SET balance = balance - 10 WHERE id = 1`)
		return err
	}
	for range 2 { // from the second one on, a begin is not awaited
		if err := txn.Run(t.Context(), m, txn.Options{}, work); err != nil {
			t.Fatal(err)
		}
	}
	line.Close()
	for _, await := range []bool{false, true} {
		attempts = 0
		err := retry.Run(t.Context(), m, txn.Options{AwaitBegin: await, Timeout: 5 * time.Second}, retry.Policy{Attempts: 3}, work)
		want := map[bool]int{false: 3, true: 0}[await]
		if !errors.Is(err, txn.ErrUnavailable) || !strings.Contains(err.Error(), "attempt 3") || attempts != want {
			t.Errorf("begin awaited: %v: %v, after the function ran %d times, want %d", await, err, attempts, want)
		}
	}
	var balance int
	if err := pool.QueryRow(t.Context(), `SELECT balance FROM account WHERE id = 1`).Scan(&balance); err != nil || balance != 80 {
		t.Errorf("the balance is %d, %v", balance, err)
	}
}
