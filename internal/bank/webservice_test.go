package bank

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/txmgr/txmgr/participant/web"
)

// vaultConfig configures the vault.
type vaultConfig struct {
	Address  string
	Database string // its DSN
	Postgres bool   // the kind of that database
}

// vaultPayload is the payload of a branch at the vault. Without legs it only reads.
type vaultPayload struct {
	Legs []leg `json:"legs"`
}

// vaultService is the web service. An amount to be taken from an account is reserved until the
// transaction is decided; the money moves at the commit.
type vaultService struct{ sql func(query string) string }

// runVaultService is the program of the vault. SIGTERM ends it in an orderly way.
func runVaultService(config string) error {
	var c vaultConfig
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	db, dialect, err := c.open()
	if err != nil {
		return err
	}
	defer db.Close()
	v := vaultService{sql: numbered}
	if dialect == web.MariaDB {
		v.sql = func(query string) string { return query }
	}
	listener, err := net.Listen("tcp", c.Address)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/txmgr/", web.Handler(web.SQL(db, dialect, ""), web.Callbacks[*sql.Tx]{
		Prepare: v.prepare, Commit: v.commit, Rollback: v.rollback,
	}, web.Options{}))
	server := &http.Server{Handler: mux, ErrorLog: log.New(io.Discard, "", 0)}
	go func() {
		<-ctx.Done()
		ending, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = server.Shutdown(ending) // a request that hangs is retried elsewhere
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (c vaultConfig) open() (*sql.DB, web.Dialect, error) {
	if c.Postgres {
		db, err := sql.Open("pgx", c.Database)
		if err == nil {
			db.SetMaxOpenConns(16)
		}
		return db, web.PostgreSQL, err
	}
	db, err := openMariaDB(c.Database)
	if err == nil {
		db.SetMaxOpenConns(16)
	}
	return db, web.MariaDB, err
}

// numbered writes parameters in the form of PostgreSQL.
func numbered(query string) string {
	out, n := "", 0
	for _, c := range query {
		if c != '?' {
			out += string(c)
			continue
		}
		n++
		out += fmt.Sprintf("$%d", n)
	}
	return out
}

func (v vaultService) prepare(ctx context.Context, s *sql.Tx, b web.Branch) error {
	o, err := v.recordCallback(ctx, s, b, "prepare")
	if err != nil {
		return err
	}
	if len(o.Legs) == 0 {
		return web.ReadOnly
	}
	for _, l := range o.Legs {
		if l.Delta >= 0 {
			continue
		}
		done, err := s.ExecContext(ctx, v.sql("UPDATE account SET held = held + ? WHERE id = ? AND balance - held >= ?"), -l.Delta, l.Account, -l.Delta)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, web.No(fmt.Sprintf("account %d has not so much", l.Account)))
		}
	}
	return nil
}

func (v vaultService) commit(ctx context.Context, s *sql.Tx, b web.Branch) error {
	o, err := v.recordCallback(ctx, s, b, "commit")
	for _, l := range o.Legs {
		if err == nil {
			_, err = s.ExecContext(ctx, v.sql("UPDATE account SET balance = balance + ?, held = held - ? WHERE id = ?"), l.Delta, max(-l.Delta, 0), l.Account)
		}
		if err == nil {
			_, err = s.ExecContext(ctx, v.sql("INSERT INTO journal (tx, account, delta) VALUES (?, ?, ?)"), b.TX.String(), l.Account, l.Delta)
		}
	}
	return err
}

func (v vaultService) rollback(ctx context.Context, s *sql.Tx, b web.Branch) error {
	o, err := v.recordCallback(ctx, s, b, "rollback")
	for _, l := range o.Legs {
		if err == nil {
			_, err = s.ExecContext(ctx, v.sql("UPDATE account SET held = held - ? WHERE id = ?"), max(-l.Delta, 0), l.Account)
		}
	}
	return err
}

// recordCallback records that a callback has run. The second time it fails: the table takes a
// branch and phase once.
func (v vaultService) recordCallback(ctx context.Context, s *sql.Tx, b web.Branch, phase string) (o vaultPayload, err error) {
	if err := json.Unmarshal(b.Payload, &o); err != nil {
		return o, web.No("the payload is none")
	}
	_, err = s.ExecContext(ctx, v.sql("INSERT INTO called (xid, phase) VALUES (?, ?)"), b.XID, phase)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s %s: %v\n", phase, b.XID, err)
	}
	return o, err
}
