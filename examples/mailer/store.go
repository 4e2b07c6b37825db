package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/txmgr/txmgr/participant/ledger"
	"github.com/txmgr/txmgr/participant/web"
)

// The counters of mails. Their sum is the quota.
const (
	free = "free"
	held = "held"
	sent = "sent"
)

// mailStore is a database with the counters and the barrier. S is a local transaction of it.
type mailStore[S any] struct {
	barrier web.Store[S]
	// move decrements one counter and increments the other.
	move func(ctx context.Context, s S, from, to string) error
	read func(ctx context.Context) (map[string]int64, error)
}

// open opens the configured database and returns the service.
func open(ctx context.Context, c config) (h http.Handler, done func() error, err error) {
	var secret []byte
	if c.secretFile != "" {
		if secret, err = os.ReadFile(c.secretFile); err != nil {
			return nil, nil, err
		}
	}
	o := optionsOf(secret)
	if c.dsn != "" {
		return onPostgres(ctx, c, o)
	}
	return onLedger(ctx, c, o)
}

// optionsOf returns the options with a secret; nil means none.
func optionsOf(secret []byte) web.Options {
	o := web.Options{Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	if secret != nil {
		o.Secrets = [][]byte{bytes.TrimSpace(secret)}
	}
	return o
}

func onLedger(ctx context.Context, c config, o web.Options) (http.Handler, func() error, error) {
	l := ledger.New("mailer", filepath.Join(c.data, "mailer.ledger"))
	counts, err := l.Balances(ctx)
	if err == nil && len(counts) == 0 {
		_, err = l.Local(ctx, fmt.Sprintf("set %s %d", free, c.quota))
	}
	if err != nil {
		return nil, nil, err
	}
	b := mailStore[*ledger.Work]{
		barrier: l.Barrier(),
		move:    func(ctx context.Context, w *ledger.Work, from, to string) error { return w.Move(ctx, from, to, 1) },
		read:    l.Balances,
	}
	return newMailer(ctx, b, c.outbox, o), func() error { return nil }, nil
}

func onPostgres(ctx context.Context, c config, o web.Options) (http.Handler, func() error, error) {
	db, err := sql.Open("pgx", c.dsn)
	if err != nil {
		return nil, nil, err
	}
	for _, statement := range []string{
		"CREATE TABLE IF NOT EXISTS mail_count (name text PRIMARY KEY, n bigint NOT NULL CHECK (n >= 0))",
		fmt.Sprintf("INSERT INTO mail_count VALUES ('%s', %d), ('%s', 0), ('%s', 0) ON CONFLICT DO NOTHING", free, c.quota, held, sent),
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			_ = db.Close() // the caller needs the other error
			return nil, nil, err
		}
	}
	b := mailStore[*sql.Tx]{
		barrier: web.SQL(db, web.PostgreSQL, ""),
		move:    moveRows,
		read:    func(ctx context.Context) (map[string]int64, error) { return readRows(ctx, db) },
	}
	return newMailer(ctx, b, c.outbox, o), db.Close, nil
}

// moveRows locks both rows in the order of their names, so that two moves in opposite directions do
// not deadlock.
func moveRows(ctx context.Context, tx *sql.Tx, from, to string) error {
	if _, err := tx.ExecContext(ctx, "SELECT 1 FROM mail_count WHERE name IN ($1, $2) ORDER BY name FOR UPDATE", from, to); err != nil {
		return err
	}
	took, err := tx.ExecContext(ctx, "UPDATE mail_count SET n = n - 1 WHERE name = $1 AND n > 0", from)
	if err != nil {
		return err
	}
	if n, err := took.RowsAffected(); err != nil || n == 0 {
		return web.No("no " + from + " mail is left")
	}
	_, err = tx.ExecContext(ctx, "UPDATE mail_count SET n = n + 1 WHERE name = $1", to)
	return err
}

func readRows(ctx context.Context, db *sql.DB) (_ map[string]int64, err error) {
	rows, err := db.QueryContext(ctx, "SELECT name, n FROM mail_count")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	counts := map[string]int64{}
	for rows.Next() {
		var name string
		var n int64
		if err := rows.Scan(&name, &n); err != nil {
			return nil, err
		}
		counts[name] = n
	}
	return counts, rows.Err()
}

// newMailer builds the service: the contract below /txmgr/, the counters at /counts. Old barrier
// rows are pruned until ctx ends.
func newMailer[S any](ctx context.Context, b mailStore[S], outbox string, o web.Options) http.Handler {
	go prune(ctx, b.barrier, o.Logger)
	mux := http.NewServeMux()
	mux.Handle("/txmgr/", web.Handler(b.barrier, callbacks(b, outbox), o))
	mux.HandleFunc("GET /counts", func(w http.ResponseWriter, r *http.Request) {
		counts, err := b.read(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]int64{free: counts[free], held: counts[held], sent: counts[sent]})
	})
	return mux
}

// outcomeRetention is how long the outcomes of branches are kept: longer than any downtime of a
// coordinator.
const outcomeRetention = 7 * 24 * time.Hour

func prune[S any](ctx context.Context, store web.Store[S], log *slog.Logger) {
	again := time.NewTicker(time.Hour)
	defer again.Stop()
	for {
		if _, err := web.Prune(ctx, store, outcomeRetention); err != nil && ctx.Err() == nil {
			log.Warn("forget old branches", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
	}
}
