package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txmgr/txmgr/txn"
)

// guard is a [pgx.Tx] that belongs to a global transaction: its end is not the
// holder's to choose, and when it has ended the connection is somebody else's. A
// statement that would end it is refused before it is sent, where the text shows
// that; otherwise it is noticed after the statement, and nothing more is sent.
type guard struct {
	inner  pgx.Tx
	branch *branch
	top    bool // not nested
}

var _ pgx.Tx = (*guard)(nil)

// check reports whether statements may be sent.
func (g *guard) check(statements ...string) error {
	if g.branch.over.Load() {
		return fmt.Errorf("%w: %w", txn.ErrNotActive, pgx.ErrTxClosed)
	}
	if g.branch.endedByHand() {
		return errEndedByHand
	}
	for _, sql := range statements {
		if err := refuseTyped(sql, g.branch.readOnly, g.escapes()); err != nil {
			return err
		}
	}
	return nil
}

// escapes reports whether a backslash in quotes hides what follows it. The server says
// so whenever the setting changes, wherever it was changed.
func (g *guard) escapes() bool {
	return g.inner.Conn().PgConn().ParameterStatus("standard_conforming_strings") != "on"
}

// after looks what a statement did to the transaction.
func (g *guard) after(err error) error {
	if !g.branch.over.Load() && g.branch.endedByHand() {
		return errors.Join(errEndedByHand, err)
	}
	return err
}

// end checks whether the holder may end it.
func (g *guard) end() error {
	if g.top {
		return fmt.Errorf("%w: end the global one", txn.ErrManaged)
	}
	return g.check()
}

func (g *guard) Begin(ctx context.Context) (pgx.Tx, error) {
	if err := g.check(); err != nil {
		return nil, err
	}
	nested, err := g.inner.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return &guard{inner: nested, branch: g.branch}, nil
}

func (g *guard) Commit(ctx context.Context) error {
	if err := g.end(); err != nil {
		return err
	}
	return g.inner.Commit(ctx)
}

func (g *guard) Rollback(ctx context.Context) error {
	if err := g.end(); err != nil {
		return err
	}
	return g.inner.Rollback(ctx)
}

func (g *guard) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, from pgx.CopyFromSource) (int64, error) {
	if err := g.check(); err != nil {
		return 0, err
	}
	n, err := g.inner.CopyFrom(ctx, table, columns, from)
	return n, g.after(err)
}

func (g *guard) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	var statements []string
	for _, q := range b.QueuedQueries {
		var err error
		if q.SQL, q.Arguments, err = g.rewritten(ctx, q.SQL, q.Arguments); err != nil {
			return pgx.FailedBatchResults(b, err)
		}
		statements = append(statements, q.SQL)
	}
	// The simple protocol sends them as one text, in which what is open in one goes on in
	// the next.
	if err := g.check(append(statements, strings.Join(statements, "\n;"))...); err != nil {
		return pgx.FailedBatchResults(b, err)
	}
	return g.inner.SendBatch(ctx, b)
}

func (g *guard) LargeObjects() pgx.LargeObjects { return g.inner.LargeObjects() }

func (g *guard) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	if err := g.check(sql); err != nil {
		return nil, err
	}
	return g.inner.Prepare(ctx, name, sql)
}

func (g *guard) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	sql, args, err := g.rewritten(ctx, sql, args)
	if err == nil {
		err = g.check(sql)
	}
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	tag, err := g.inner.Exec(ctx, sql, args...)
	return tag, g.after(err)
}

// Query gives rows during which nothing else is sent; what the query did to the
// transaction is looked at before the next statement.
func (g *guard) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	sql, args, err := g.rewritten(ctx, sql, args)
	if err == nil {
		err = g.check(sql)
	}
	if err != nil {
		return nil, err
	}
	return g.inner.Query(ctx, sql, args...)
}

func (g *guard) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	sql, args, err := g.rewritten(ctx, sql, args)
	if err == nil {
		err = g.check(sql)
	}
	if err != nil {
		return failed{err}
	}
	return guardedRow{g.inner.QueryRow(ctx, sql, args...), g}
}

// Conn gives the connection itself, past the guard: a transaction that is ended on
// it is found out before the next statement and before the vote, but not one that has
// failed by then; see [branch.unproved].
func (g *guard) Conn() *pgx.Conn {
	g.branch.lent.Store(true)
	return g.inner.Conn()
}

// guardedRow is a row of which the query has to be looked at.
type guardedRow struct {
	pgx.Row
	guard *guard
}

// Scan implements [pgx.Row].
func (r guardedRow) Scan(dest ...any) error { return r.guard.after(r.Row.Scan(dest...)) }
