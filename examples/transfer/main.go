// Command transfer moves money between two PostgreSQL databases, all or nothing.
// It is the shortest complete program of the Go client:
//
//	go run ./examples/transfer --from postgres://… --to postgres://… --amount 10
//
// Register both databases with the coordinator as "from" and "to" (txmgr participant add), and
// create in both the table
//
//	CREATE TABLE account (id int PRIMARY KEY, balance int CHECK (balance >= 0))
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/participant/postgres"
	"github.com/txmgr/txmgr/txn"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	server := flag.String("server", client.DefaultAddress, "address of the coordinator")
	from := flag.String("from", "", "connection string of the database that pays")
	to := flag.String("to", "", "connection string of the database that receives")
	amount := flag.Int("amount", 10, "how much to move")
	flag.Parse()
	if err := run(ctx, *server, *from, *to, *amount); err != nil {
		fmt.Fprintln(os.Stderr, "transfer:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, server, from, to string, amount int) (err error) {
	m, err := client.Dial(server)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	payer, err := pgxpool.New(ctx, from)
	if err != nil {
		return err
	}
	defer payer.Close()
	payee, err := pgxpool.New(ctx, to)
	if err != nil {
		return err
	}
	defer payee.Close()
	return transfer(ctx, m, postgres.New("from", payer), postgres.New("to", payee), amount)
}

// transfer is the code of an application: work on each database with one context and one
// transaction. Returning nil commits, an error rolls back.
func transfer(ctx context.Context, m txn.Manager, from, to *postgres.DB, amount int) error {
	return txn.Run(ctx, m, txn.Options{Name: "transfer", Timeout: 30 * time.Second}, func(ctx context.Context, tx *txn.Tx) error {
		if _, err := from.Exec(ctx, tx, `UPDATE account SET balance = balance - $1 WHERE id = 1`, amount); err != nil {
			return err
		}
		_, err := to.Exec(ctx, tx, `UPDATE account SET balance = balance + $1 WHERE id = 1`, amount)
		return err
	})
}
