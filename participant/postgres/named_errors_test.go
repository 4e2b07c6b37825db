package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txmgr/txmgr/txn"
)

// The error of a statement, whichever way it is sent, names the participant and wraps the
// server's.
func TestErrorsOfWorkNameTheParticipant(t *testing.T) {
	const overdraw = "UPDATE account SET balance = -1 WHERE id = 'alice' RETURNING balance"
	queried := func(rows pgx.Rows, err error) error {
		if err != nil {
			return err
		}
		_, err = pgx.CollectRows(rows, pgx.RowTo[int64])
		return err
	}
	for name, work := range map[string]func(ctx context.Context, db *DB, tx *txn.Tx) error{
		"exec":  func(ctx context.Context, db *DB, tx *txn.Tx) error { _, err := db.Exec(ctx, tx, overdraw); return err },
		"query": func(ctx context.Context, db *DB, tx *txn.Tx) error { return queried(db.Query(ctx, tx, overdraw)) },
		"row": func(ctx context.Context, db *DB, tx *txn.Tx) error {
			var n int64
			return db.QueryRow(ctx, tx, overdraw).Scan(&n)
		},
		"library": func(ctx context.Context, db *DB, tx *txn.Tx) error {
			own, err := db.Tx(ctx, tx)
			if err != nil {
				return err
			}
			return pgx.BeginFunc(ctx, own, func(nested pgx.Tx) error { return queried(nested.Query(ctx, overdraw)) })
		},
		"batch": func(ctx context.Context, db *DB, tx *txn.Tx) error {
			own, err := db.Tx(ctx, tx)
			if err != nil {
				return err
			}
			b := &pgx.Batch{}
			b.Queue(overdraw)
			return own.SendBatch(ctx, b).Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShops(t)
			err := txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error { return work(ctx, s.shopDB, tx) })
			var refused *pgconn.PgError
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), "shop: ERROR: ") || strings.Count(err.Error(), "shop: ") != 1 || !errors.Is(err, txn.ErrRolledBack) {
				t.Errorf("%v", err)
			}
		})
	}
	s := newShops(t)
	check(t, txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
		var n int64
		if err := s.shopDB.QueryRow(ctx, tx, "SELECT balance FROM account WHERE id = 'nobody'").Scan(&n); err != pgx.ErrNoRows {
			t.Errorf("no row: %v", err)
		}
		return nil
	}))
}
