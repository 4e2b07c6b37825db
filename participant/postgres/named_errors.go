package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// namedTx is a [pgx.Tx] whose errors name the participant: an application that uses several has
// to know which one an error is from.
type namedTx struct {
	pgx.Tx
	name string
}

// namedTx returns the transaction of a branch as the application gets it.
func (db *DB) namedTx(b *branch) namedTx { return namedTx{b.tx, db.name} }

// wrapErr adds the participant's name. [pgx.ErrNoRows] stays as it is, because callers compare
// with it.
func (n namedTx) wrapErr(err error) error {
	if err == nil || err == pgx.ErrNoRows {
		return err
	}
	return fmt.Errorf("%s: %w", n.name, err)
}

func (n namedTx) Begin(ctx context.Context) (pgx.Tx, error) {
	nested, err := n.Tx.Begin(ctx)
	if err != nil {
		return nil, n.wrapErr(err)
	}
	return namedTx{nested, n.name}, nil
}

func (n namedTx) Commit(ctx context.Context) error   { return n.wrapErr(n.Tx.Commit(ctx)) }
func (n namedTx) Rollback(ctx context.Context) error { return n.wrapErr(n.Tx.Rollback(ctx)) }

func (n namedTx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, from pgx.CopyFromSource) (int64, error) {
	count, err := n.Tx.CopyFrom(ctx, table, columns, from)
	return count, n.wrapErr(err)
}

func (n namedTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	return namedBatch{n.Tx.SendBatch(ctx, b), n}
}

func (n namedTx) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	d, err := n.Tx.Prepare(ctx, name, sql)
	return d, n.wrapErr(err)
}

func (n namedTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	tag, err := n.Tx.Exec(ctx, sql, args...)
	return tag, n.wrapErr(err)
}

func (n namedTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	rows, err := n.Tx.Query(ctx, sql, args...)
	if rows != nil {
		rows = namedRows{rows, n}
	}
	return rows, n.wrapErr(err)
}

func (n namedTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return namedRow{n.Tx.QueryRow(ctx, sql, args...), n}
}

type namedRows struct {
	pgx.Rows
	n namedTx
}

// Conn is that of [managedTx], which records that the application was given the connection.
func (r namedRows) Conn() *pgx.Conn { return r.n.Conn() }

func (r namedRows) Err() error { return r.n.wrapErr(r.Rows.Err()) }

func (r namedRows) Scan(dest ...any) error { return r.n.wrapErr(r.Rows.Scan(dest...)) }

func (r namedRows) Values() ([]any, error) {
	v, err := r.Rows.Values()
	return v, r.n.wrapErr(err)
}

type namedRow struct {
	pgx.Row
	n namedTx
}

func (r namedRow) Scan(dest ...any) error { return r.n.wrapErr(r.Row.Scan(dest...)) }

type namedBatch struct {
	pgx.BatchResults
	n namedTx
}

func (b namedBatch) Exec() (pgconn.CommandTag, error) {
	tag, err := b.BatchResults.Exec()
	return tag, b.n.wrapErr(err)
}

func (b namedBatch) Query() (pgx.Rows, error) {
	rows, err := b.BatchResults.Query()
	if rows != nil {
		rows = namedRows{rows, b.n}
	}
	return rows, b.n.wrapErr(err)
}

func (b namedBatch) QueryRow() pgx.Row { return namedRow{b.BatchResults.QueryRow(), b.n} }

func (b namedBatch) Close() error { return b.n.wrapErr(b.BatchResults.Close()) }
