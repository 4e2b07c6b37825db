package mariadb

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/txmgr/txmgr/participant/mariadb/internal/errno"
	"github.com/txmgr/txmgr/txn"
)

// The error of a statement, whichever way it is sent, names the participant and wraps the
// server's.
func TestErrorsOfWorkNameTheParticipant(t *testing.T) {
	const missing = "SELECT balance FROM missing"
	for name, work := range map[string]func(ctx context.Context, db *DB, tx *txn.Tx) error{
		"exec":  func(ctx context.Context, db *DB, tx *txn.Tx) error { _, err := db.Exec(ctx, tx, missing); return err },
		"query": func(ctx context.Context, db *DB, tx *txn.Tx) error { _, err := db.Query(ctx, tx, missing); return err },
		"row": func(ctx context.Context, db *DB, tx *txn.Tx) error {
			var n int64
			return db.QueryRow(ctx, tx, missing).Scan(&n)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShops(t)
			err := txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error { return work(ctx, s.shop.db, tx) })
			if errno.Of(err) != 1146 || !strings.Contains(err.Error(), ": shop: ") || strings.Count(err.Error(), "shop: ") != 1 {
				t.Errorf("%v", err)
			}
		})
	}
	s := newShops(t)
	check(t, txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
		var n int64
		if err := s.shop.db.QueryRow(ctx, tx, "SELECT balance FROM account WHERE id = 'nobody'").Scan(&n); err != sql.ErrNoRows {
			t.Errorf("no row: %v", err)
		}
		return nil
	}))
}
