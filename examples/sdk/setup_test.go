package sdk

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txmgr/txmgr/internal/testdb"
	"github.com/txmgr/txmgr/node"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/mariadb"
	"github.com/txmgr/txmgr/participant/postgres"
	"github.com/txmgr/txmgr/participant/web"
	"github.com/txmgr/txmgr/server"
	"github.com/txmgr/txmgr/txn/admin"
)

// The setup of the examples.
var (
	address    string        // of the coordinator
	pool       *pgxpool.Pool // of the database of accounts, registered as "bank"
	db         *sql.DB       // of the database of items, registered as "stock"
	letters    *sql.DB       // of the service that sends letters, registered as "mailer"
	directory  string        // for files
	drivers    = map[string]participant.Driver{postgres.Kind: postgres.Driver, mariadb.Kind: mariadb.Driver, web.Kind: web.Driver}
	background = context.Background()
)

func TestMain(m *testing.M) {
	code, err := withSetup(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// withSetup starts everything, calls run, and stops everything.
func withSetup(run func() int) (code int, err error) {
	var undo []func() error
	defer func() {
		for i := len(undo) - 1; i >= 0; i-- {
			err = errors.Join(err, undo[i]())
		}
	}()
	later := func(f func() error) { undo = append(undo, f) }
	if directory, err = os.MkdirTemp("", "txmgr-sdk-"); err != nil {
		return 1, err
	}
	later(func() error { return os.RemoveAll(directory) })
	pg, err := testdb.StartPostgres(background, testdb.PostgresConfig{NoFsync: true})
	if err != nil {
		return 1, err
	}
	later(pg.Close)
	my, err := testdb.StartMariaDB(background, testdb.MariaDBConfig{NoFsync: true})
	if err != nil {
		return 1, err
	}
	later(my.Close)
	if err := errors.Join(pg.CreateDatabase(background, "bank"), my.CreateDatabase(background, "stock"), my.CreateDatabase(background, "mailer")); err != nil {
		return 1, err
	}
	if pool, err = pgxpool.New(background, pg.DSN("bank")); err != nil {
		return 1, err
	}
	later(func() error { pool.Close(); return nil })
	for name, into := range map[string]**sql.DB{"stock": &db, "mailer": &letters} {
		if *into, err = sql.Open("mysql", my.DSN(name)); err != nil {
			return 1, err
		}
		later((*into).Close)
	}
	if err := tables(); err != nil {
		return 1, err
	}
	mailer, stop, err := serve(mailerHandler())
	if err != nil {
		return 1, err
	}
	later(stop)
	stop, err = coordinator(pg.DSN("bank"), my.DSN("stock"), mailer)
	if err != nil {
		return 1, err
	}
	later(stop)
	return run(), nil
}

func tables() error {
	_, err := pool.Exec(background, `CREATE TABLE account (id int PRIMARY KEY, balance int CHECK (balance >= 0)); INSERT INTO account VALUES (1, 100)`)
	for where, statements := range map[*sql.DB][]string{
		db:      {`CREATE TABLE item (id int PRIMARY KEY, n int CHECK (n >= 0))`, `INSERT INTO item VALUES (7, 3)`},
		letters: {`CREATE TABLE letter (xid varchar(100) PRIMARY KEY, text varchar(100), sent bool)`},
	} {
		for _, s := range statements {
			_, e := where.Exec(s)
			err = errors.Join(err, e)
		}
	}
	return err
}

// serve serves on a free port of loopback.
func serve(h http.Handler) (url string, stop func() error, err error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	s := &http.Server{Handler: h}
	go func() { _ = s.Serve(ln) }() // ends with Close
	return "http://" + ln.Addr().String(), s.Close, nil
}

// coordinator runs what `txmgr server` runs, in this process.
func coordinator(bank, stock, mailer string) (stop func() error, err error) {
	quiet := slog.New(slog.DiscardHandler)
	n, err := node.Open(background, node.Config{DataDir: directory + "/server", Logger: quiet, Drivers: drivers})
	if err != nil {
		return nil, err
	}
	for _, p := range []admin.Participant{
		{Name: "bank", Kind: postgres.Kind, Settings: map[string]string{"dsn": bank}},
		{Name: "stock", Kind: mariadb.Kind, Settings: map[string]string{"dsn": stock}},
		{Name: "mailer", Kind: web.Kind, Settings: map[string]string{"url": mailer + "/txmgr"}},
	} {
		if err := n.Admin().AddParticipant(background, p, "", ""); err != nil {
			return nil, errors.Join(err, n.Close())
		}
	}
	s, err := server.New(server.Config{Log: quiet}, n)
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	address = "http://" + ln.Addr().String()
	ctx, cancel := context.WithCancel(background)
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, ln) }()
	return func() error {
		cancel()
		return errors.Join(<-served, n.Close())
	}, nil
}

// reset restores the initial contents for every example.
func reset() {
	_, err := pool.Exec(background, `UPDATE account SET balance = 100`)
	_, e := db.Exec(`UPDATE item SET n = 3`)
	_, f := letters.Exec(`DELETE FROM letter`)
	if err := errors.Join(err, e, f); err != nil {
		panic(err)
	}
}

// show prints what the databases hold.
func show() {
	var balance, n, sent int
	err := pool.QueryRow(background, `SELECT balance FROM account WHERE id = 1`).Scan(&balance)
	e := db.QueryRow(`SELECT n FROM item WHERE id = 7`).Scan(&n)
	f := letters.QueryRow(`SELECT count(*) FROM letter WHERE sent`).Scan(&sent)
	if err := errors.Join(err, e, f); err != nil {
		panic(err)
	}
	fmt.Printf("balance %d, items %d, letters %d\n", balance, n, sent)
}
