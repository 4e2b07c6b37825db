package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txmgr/txmgr/participant/postgres/internal/sqltext"
	"github.com/txmgr/txmgr/txn"
)

// managedTx is a [pgx.Tx] that belongs to a global transaction: the application must not end it,
// and after its end another client may use the connection. A statement that would end it is
// refused before it is sent, if the text shows it; otherwise the end is detected after the
// statement, and nothing more is sent.
type managedTx struct {
	inner    pgx.Tx
	branch   *branch
	topLevel bool // not nested
}

var _ pgx.Tx = (*managedTx)(nil)

// check reports whether statements may be sent.
func (g *managedTx) check(statements ...string) error {
	if g.branch.workEnded.Load() {
		return fmt.Errorf("%w: %w", txn.ErrNotActive, pgx.ErrTxClosed)
	}
	if g.branch.endedByApplication() {
		return errEndedByApplication
	}
	for _, sql := range statements {
		if err := sqltext.RejectTxControl(sql, g.branch.readOnly, g.backslashEscapes()); err != nil {
			return err
		}
	}
	return nil
}

// backslashEscapes reports whether a backslash in a quoted text escapes the next character. The
// server reports the setting whenever it changes, wherever it was changed.
func (g *managedTx) backslashEscapes() bool {
	return g.inner.Conn().PgConn().ParameterStatus("standard_conforming_strings") != "on"
}

// checkAfter checks whether a statement ended the transaction.
func (g *managedTx) checkAfter(err error) error {
	if !g.branch.workEnded.Load() && g.branch.endedByApplication() {
		return errors.Join(errEndedByApplication, err)
	}
	return err
}

// checkEnd checks whether the application may end the transaction: only a nested one.
func (g *managedTx) checkEnd() error {
	if g.topLevel {
		return fmt.Errorf("%w: end the global one", txn.ErrManaged)
	}
	return g.check()
}

func (g *managedTx) Begin(ctx context.Context) (pgx.Tx, error) {
	if err := g.check(); err != nil {
		return nil, err
	}
	nested, err := g.inner.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return &managedTx{inner: nested, branch: g.branch}, nil
}

func (g *managedTx) Commit(ctx context.Context) error {
	if err := g.checkEnd(); err != nil {
		return err
	}
	return g.inner.Commit(ctx)
}

func (g *managedTx) Rollback(ctx context.Context) error {
	if err := g.checkEnd(); err != nil {
		return err
	}
	return g.inner.Rollback(ctx)
}

func (g *managedTx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, from pgx.CopyFromSource) (int64, error) {
	if err := g.check(); err != nil {
		return 0, err
	}
	n, err := g.inner.CopyFrom(ctx, table, columns, from)
	return n, g.checkAfter(err)
}

func (g *managedTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	var statements []string
	for _, q := range b.QueuedQueries {
		var err error
		if q.SQL, q.Arguments, err = g.rewritten(ctx, q.SQL, q.Arguments); err != nil {
			return pgx.FailedBatchResults(b, err)
		}
		statements = append(statements, q.SQL)
	}
	// The simple protocol sends the statements as one text: a quoted text or comment that one
	// leaves open continues in the next.
	if err := g.check(append(statements, strings.Join(statements, "\n;"))...); err != nil {
		return pgx.FailedBatchResults(b, err)
	}
	return g.inner.SendBatch(ctx, b)
}

func (g *managedTx) LargeObjects() pgx.LargeObjects { return g.inner.LargeObjects() }

func (g *managedTx) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	if err := g.check(sql); err != nil {
		return nil, err
	}
	return g.inner.Prepare(ctx, name, sql)
}

func (g *managedTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	sql, args, err := g.rewritten(ctx, sql, args)
	if err == nil {
		err = g.check(sql)
	}
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	tag, err := g.inner.Exec(ctx, sql, args...)
	return tag, g.checkAfter(err)
}

// Query returns rows, and nothing else is sent until they are closed; whether the query ended
// the transaction is checked before the next statement.
func (g *managedTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	sql, args, err := g.rewritten(ctx, sql, args)
	if err == nil {
		err = g.check(sql)
	}
	if err != nil {
		return nil, err
	}
	return g.inner.Query(ctx, sql, args...)
}

func (g *managedTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	sql, args, err := g.rewritten(ctx, sql, args)
	if err == nil {
		err = g.check(sql)
	}
	if err != nil {
		return failedRow{err}
	}
	return managedRow{g.inner.QueryRow(ctx, sql, args...), g}
}

// Conn returns the connection itself, without the checks: that the transaction was ended on it is
// detected before the next statement and before the vote, unless another transaction has begun
// and failed by then; see [branch.unprovenError].
func (g *managedTx) Conn() *pgx.Conn {
	g.branch.connExposed.Store(true)
	return g.inner.Conn()
}

// managedRow checks the transaction after the query of a row.
type managedRow struct {
	pgx.Row
	tx *managedTx
}

// Scan implements [pgx.Row].
func (r managedRow) Scan(dest ...any) error { return r.tx.checkAfter(r.Row.Scan(dest...)) }
