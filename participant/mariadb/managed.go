package mariadb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"

	"github.com/txmgr/txmgr/txn"
)

// exposeConn returns the branch's connection as one that cannot begin or end transactions. It is
// the same one every time, unless it was closed.
func (b *branch) exposeConn(ctx context.Context) (*sql.Conn, error) {
	if b.managed == nil {
		b.managed = sql.OpenDB(&managedConn{branch: b})
	}
	if b.exposedConn != nil && b.exposedConn.PingContext(ctx) == nil {
		return b.exposedConn, nil
	}
	var err error
	b.exposedConn, err = b.managed.Conn(ctx)
	return b.exposedConn, err
}

// managedConn is a branch's connection as the application may use it. It is its own
// [driver.Connector], and owns nothing.
type managedConn struct{ branch *branch }

var (
	_ driver.Connector          = (*managedConn)(nil)
	_ driver.ConnBeginTx        = (*managedConn)(nil)
	_ driver.ConnPrepareContext = (*managedConn)(nil)
	_ driver.ExecerContext      = (*managedConn)(nil)
	_ driver.QueryerContext     = (*managedConn)(nil)
	_ driver.NamedValueChecker  = (*managedConn)(nil)
)

// Connect implements [driver.Connector].
func (c *managedConn) Connect(context.Context) (driver.Conn, error) { return c, nil }

// Driver implements [driver.Connector].
func (c *managedConn) Driver() driver.Driver { return c.branch.db.pool.Driver() }

// Close implements [driver.Conn]. It does nothing: the branch owns the connection.
func (c *managedConn) Close() error { return nil }

// Begin implements [driver.Conn].
func (c *managedConn) Begin() (driver.Tx, error) {
	return nil, fmt.Errorf("%w: the connection is in the global transaction already: work on it without Begin (GORM: SkipDefaultTransaction; for a part of the work: SAVEPOINT), and return nil from the function of txn.Run to commit", txn.ErrManaged)
}

// BeginTx implements [driver.ConnBeginTx].
func (c *managedConn) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) { return c.Begin() }

// Prepare implements [driver.Conn].
func (c *managedConn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

// PrepareContext implements [driver.ConnPrepareContext].
func (c *managedConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	var s *managedStmt
	err := c.branch.runStatement(query, func(conn any) error {
		inner, ok := conn.(driver.ConnPrepareContext)
		if !ok {
			return fmt.Errorf("a connection of type %T cannot prepare", conn)
		}
		stmt, err := inner.PrepareContext(ctx, query)
		if err == nil {
			s = c.branch.conn.trackStmt(c.branch, stmt)
		}
		return err
	})
	if err != nil {
		return nil, c.branch.checkError(ctx, err)
	}
	return s, nil
}

// ExecContext implements [driver.ExecerContext].
func (c *managedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (res driver.Result, _ error) {
	err := c.branch.runStatement(query, func(conn any) (err error) {
		inner, ok := conn.(driver.ExecerContext)
		if !ok {
			return driver.ErrSkip
		}
		res, err = inner.ExecContext(ctx, query, args)
		return err
	})
	return res, c.branch.checkError(ctx, err)
}

// QueryContext implements [driver.QueryerContext].
func (c *managedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	var rows driver.Rows
	err := c.branch.runStatement(query, func(conn any) (err error) {
		inner, ok := conn.(driver.QueryerContext)
		if !ok {
			return driver.ErrSkip
		}
		rows, err = inner.QueryContext(c.branch.conn.boundContext(ctx), query, args)
		return err
	})
	return c.branch.rows(ctx, rows, err)
}

// CheckNamedValue implements [driver.NamedValueChecker].
func (c *managedConn) CheckNamedValue(v *driver.NamedValue) error {
	if c.branch.workEnded.Load() {
		return nil // the statement itself is refused, with the reason
	}
	return c.branch.conn.raw(func(conn any) error {
		if inner, ok := conn.(driver.NamedValueChecker); ok {
			return inner.CheckNamedValue(v)
		}
		return driver.ErrSkip
	})
}
