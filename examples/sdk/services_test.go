package sdk

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/participant/postgres"
	"github.com/txmgr/txmgr/participant/web"
	"github.com/txmgr/txmgr/txn"
)

// mailerHandler is a service that takes part: it stores a letter at prepare, and sends it at
// commit.
func mailerHandler() http.Handler {
	return http.StripPrefix("/txmgr", web.Handler(web.SQL(letters, web.MariaDB, ""), web.Callbacks[*sql.Tx]{
		Prepare: func(ctx context.Context, tx *sql.Tx, b web.Branch) error {
			if len(b.Payload) == 0 {
				return web.No("there is nothing to write")
			}
			_, err := tx.ExecContext(ctx, `INSERT INTO letter VALUES (?, ?, false)`, b.XID, b.Payload)
			return err
		},
		Commit: func(ctx context.Context, tx *sql.Tx, b web.Branch) error {
			_, err := tx.ExecContext(ctx, `UPDATE letter SET sent = true WHERE xid = ?`, b.XID)
			return err
		},
		Rollback: func(ctx context.Context, tx *sql.Tx, b web.Branch) error {
			_, err := tx.ExecContext(ctx, `DELETE FROM letter WHERE xid = ?`, b.XID)
			return err
		},
	}, web.Options{}))
}

// A web service takes part like a database: the coordinator calls it for its vote when commit is
// requested.
func Example_webService() {
	reset()
	m, err := client.Dial(address)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	bank, mailer := postgres.New("bank", pool), web.New("mailer")
	pay := func(letter string) error {
		return txn.Run(context.Background(), m, txn.Options{Name: "pay"}, func(ctx context.Context, tx *txn.Tx) error {
			if err := mailer.Enlist(ctx, tx, []byte(letter)); err != nil {
				return err
			}
			_, err := bank.Exec(ctx, tx, `UPDATE account SET balance = balance - 10 WHERE id = 1`)
			return err
		})
	}
	fmt.Println(pay("thank you"))
	finished(m)
	show()
	err = pay("")
	fmt.Println(errors.Is(err, txn.ErrVotedNo))
	finished(m)
	show()
	// Output:
	// <nil>
	// balance 90, items 3, letters 1
	// true
	// balance 90, items 3, letters 1
}
