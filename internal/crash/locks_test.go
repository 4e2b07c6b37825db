package crash

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txmgr/txmgr/participant/postgres"
	"github.com/txmgr/txmgr/txn"
)

// TestHangingSessionLosesItsLocks: an application updates a row and then hangs, without preparing
// or closing its connection. At the deadline its connection is ended, and another one that waits
// for the row gets it.
func TestHangingSessionLosesItsLocks(t *testing.T) {
	c := newCoordinator(t)
	c.start("")
	b := newBank(t, c)
	pool, err := pgxpool.New(t.Context(), b.dsn["left"])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	db := postgres.New("left", pool)
	const timeout = 2 * time.Second
	start := time.Now()
	tx, err := txn.Start(t.Context(), b.m, txn.Options{Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(t.Context(), tx, "UPDATE account SET balance = 0 WHERE id = 1"); err != nil {
		t.Fatal(err)
	}
	// From here on the application hangs. Another connection waits for the row.
	other := b.connect("left")
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	if _, err := other.Exec(ctx, "UPDATE account SET balance = balance WHERE id = 1"); err != nil {
		t.Fatalf("the row stayed locked: %v", err)
	}
	took := time.Since(start)
	if took < timeout {
		t.Errorf("the row was free after %v, before the timeout of %v", took, timeout)
	}
	t.Logf("timeout %v; the row was free after %v", timeout, took.Round(time.Millisecond))
	if err := tx.Commit(t.Context()); err == nil {
		t.Error("the application that hung could commit")
	}
	if got := b.awaitFinished(tx.ID(), true); got != txn.RolledBack {
		t.Errorf("ended %v", got)
	}
}
