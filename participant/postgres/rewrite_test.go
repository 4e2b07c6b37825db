package postgres

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txmgr/txmgr/txn"
)

// rewriter replaces every statement by another one.
type rewriter func(ctx context.Context, conn *pgx.Conn) string

// RewriteQuery implements [pgx.QueryRewriter].
func (r rewriter) RewriteQuery(ctx context.Context, conn *pgx.Conn, _ string, args []any) (string, []any, error) {
	return r(ctx, conn), args, nil
}

// wantRefused sends a statement in every way, and wants it to be refused.
func wantRefused(ctx context.Context, t *testing.T, db *DB, tx *txn.Tx, sql string, args ...any) {
	t.Helper()
	ptx, err := db.Tx(ctx, tx)
	check(t, err)
	var batch pgx.Batch
	batch.Queue(sql, args...)
	_, errExec := db.Exec(ctx, tx, sql, args...)
	_, errQuery := db.Query(ctx, tx, sql, args...)
	for how, err := range map[string]error{
		"exec": errExec, "query": errQuery, "row": db.QueryRow(ctx, tx, sql, args...).Scan(), "batch": ptx.SendBatch(ctx, &batch).Close(),
	} {
		if !errors.Is(err, txn.ErrManaged) {
			t.Errorf("%s: %v", how, err)
		}
	}
}

// TestRewrittenStatementIsChecked: the result of the rewriter is checked, not its input.
func TestRewrittenStatementIsChecked(t *testing.T) {
	s := newShops(t)
	err := txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
		check(t, s.move(ctx, tx, 30))
		ends := rewriter(func(context.Context, *pgx.Conn) string { return "COMMIT" })
		wantRefused(ctx, t, s.bank.db, tx, "SELECT 1", ends)
		wantRefused(ctx, t, s.bank.db, tx, "SELECT 1", pgx.NamedArgs{}, ends)
		wantRefused(ctx, t, s.bank.db, tx, "COMMIT", pgx.NamedArgs{})
		return nil
	})
	check(t, err)
	s.want(t, 70, 130)
}

// TestNamedArgumentsKeepTheProof: pgx's own rewriters need no connection.
func TestNamedArgumentsKeepTheProof(t *testing.T) {
	s := newShops(t)
	err := txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
		check(t, s.move(ctx, tx, 30))
		for _, args := range [][]any{{pgx.NamedArgs{"n": 7}}, {pgx.QueryExecModeExec, pgx.StrictNamedArgs{"n": 7}}, {pgx.QueryResultFormats{pgx.TextFormatCode}, pgx.NamedArgs{"n": 7}}} {
			var n int
			check(t, s.bank.db.QueryRow(ctx, tx, "SELECT @n::int", args...).Scan(&n))
			if n != 7 {
				t.Errorf("%v gives %d", args, n)
			}
		}
		_, err := s.bank.db.Exec(ctx, tx, "SELECT 1 / @n::int", pgx.NamedArgs{"n": 0})
		return err
	})
	if !errors.Is(err, txn.ErrRolledBack) || errors.Is(err, txn.ErrEndedByApplication) {
		t.Error(err)
	}
	s.want(t, 100, 100)
}

// TestRewriterExposesTheConnection: a rewriter of the application's own may have ended the transaction
// on it.
func TestRewriterExposesTheConnection(t *testing.T) {
	s := newShops(t)
	err := txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
		check(t, s.move(ctx, tx, 30))
		_, err := s.bank.db.Exec(ctx, tx, "SELECT 1", rewriter(func(ctx context.Context, conn *pgx.Conn) string {
			_, err := conn.PgConn().Exec(ctx, "ROLLBACK; UPDATE account SET balance = 50; COMMIT; BEGIN").ReadAll()
			check(t, err)
			return "SELECT 1/0"
		}))
		return err
	})
	if !errors.Is(err, txn.ErrEndedByApplication) || errors.Is(err, txn.ErrRolledBack) {
		t.Errorf("got %v", err)
	}
	s.want(t, 50, 100)
}

// TestEndBehindABackslashIsRefused if the server takes a backslash for an escape: set by a
// statement, and by the defaults of role and database. A failure is a rollback then.
func TestEndBehindABackslashIsRefused(t *testing.T) {
	const text = `SELECT '\''; ROLLBACK; UPDATE account SET balance = 50; COMMIT; BEGIN; SELECT 1/0; --'`
	for _, set := range []string{"SET standard_conforming_strings = off", "SELECT set_config('standard_conforming_strings', 'off', true)", ""} {
		s := newShops(t)
		if set == "" {
			s.bank.exec(t, "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET standard_conforming_strings = off', current_database()); END $$")
			pool, err := pgxpool.New(t.Context(), s.bank.dsn)
			check(t, err)
			t.Cleanup(pool.Close)
			s.bank.db = New("bank", pool)
		}
		err := txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
			check(t, s.move(ctx, tx, 30))
			if set != "" {
				_, err := s.bank.db.Exec(ctx, tx, set)
				check(t, err)
			}
			wantRefused(ctx, t, s.bank.db, tx, text)
			_, err := s.bank.db.Exec(ctx, tx, "SELECT 1/0")
			return err
		})
		if !errors.Is(err, txn.ErrRolledBack) || errors.Is(err, txn.ErrEndedByApplication) {
			t.Errorf("%q: got %v", set, err)
		}
		s.want(t, 100, 100)
	}
}

// TestBatchIsCheckedAsOneText: the simple protocol sends it as one text.
func TestBatchIsCheckedAsOneText(t *testing.T) {
	s := newShops(t)
	cfg, err := pgxpool.ParseConfig(s.bank.dsn)
	check(t, err)
	cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	check(t, err)
	t.Cleanup(pool.Close)
	s.bank.db = New("bank", pool)
	check(t, txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
		check(t, s.move(ctx, tx, 30))
		ptx, err := s.bank.db.Tx(ctx, tx)
		check(t, err)
		var batch pgx.Batch
		batch.Queue("SELECT 'a")
		batch.Queue("'; COMMIT; SELECT '")
		batch.Queue("'")
		if err := ptx.SendBatch(ctx, &batch).Close(); !errors.Is(err, txn.ErrManaged) {
			t.Errorf("the batch: %v", err)
		}
		return nil
	}))
	s.want(t, 70, 130)
}
