package postgres

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txmgr/txmgr/txn"
)

// TestKeepalives: in a branch the server looks for the client's host within the transaction's
// timeout, or a minute, whichever is shorter; after the branch the connection is as before.
func TestKeepalives(t *testing.T) {
	s := newShops(t)
	pool, err := pgxpool.New(t.Context(), s.bank.dsn+"&pool_max_conns=1")
	check(t, err)
	defer pool.Close()
	const query = "SELECT current_setting('tcp_keepalives_idle')::int, current_setting('tcp_keepalives_interval')::int, current_setting('tcp_keepalives_count')::int"
	var before [3]int
	check(t, pool.QueryRow(t.Context(), query).Scan(&before[0], &before[1], &before[2]))
	for timeout, want := range map[time.Duration][3]int{
		2 * time.Second:  {1, 1, 3}, // whole seconds, one at least
		12 * time.Second: {6, 2, 3},
		time.Minute:      {30, 10, 3},
		time.Hour:        {30, 10, 3},
	} {
		for _, end := range []error{nil, fmt.Errorf("no")} {
			var got, after [3]int
			db := New("bank", pool)
			_ = txn.Run(t.Context(), s, txn.Options{Timeout: timeout}, func(ctx context.Context, tx *txn.Tx) error {
				check(t, db.QueryRow(ctx, tx, query).Scan(&got[0], &got[1], &got[2]))
				return end
			})
			check(t, pool.QueryRow(t.Context(), query).Scan(&after[0], &after[1], &after[2]))
			if got != want || after != before {
				t.Errorf("timeout %v: idle, interval and count of the probes %v, want %v; afterwards %v, want %v", timeout, got, want, after, before)
			}
		}
	}
}
