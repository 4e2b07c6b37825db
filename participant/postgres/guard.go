package postgres

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txmgr/txmgr/txn"
)

// guard is a [pgx.Tx] that belongs to a global transaction: its end is not the
// holder's to choose, and when it has ended the connection is somebody else's.
type guard struct {
	inner pgx.Tx
	over  *atomic.Bool // the branch's
	top   bool         // not nested
}

var _ pgx.Tx = (*guard)(nil)

func (g *guard) check() error {
	if g.over.Load() {
		return fmt.Errorf("%w: %w", txn.ErrNotActive, pgx.ErrTxClosed)
	}
	return nil
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
	return &guard{inner: nested, over: g.over}, nil
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
	return g.inner.CopyFrom(ctx, table, columns, from)
}

func (g *guard) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if err := g.check(); err != nil {
		return pgx.FailedBatchResults(b, err)
	}
	return g.inner.SendBatch(ctx, b)
}

func (g *guard) LargeObjects() pgx.LargeObjects { return g.inner.LargeObjects() }

func (g *guard) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	if err := g.check(); err != nil {
		return nil, err
	}
	return g.inner.Prepare(ctx, name, sql)
}

func (g *guard) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if err := g.check(); err != nil {
		return pgconn.CommandTag{}, err
	}
	return g.inner.Exec(ctx, sql, args...)
}

func (g *guard) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if err := g.check(); err != nil {
		return nil, err
	}
	return g.inner.Query(ctx, sql, args...)
}

func (g *guard) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if err := g.check(); err != nil {
		return failed{err}
	}
	return g.inner.QueryRow(ctx, sql, args...)
}

func (g *guard) Conn() *pgx.Conn { return g.inner.Conn() }
