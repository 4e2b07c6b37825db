package mariadb

import (
	"context"
	"database/sql/driver"
	"fmt"
)

// runStatement is [branchConn.raw] for a statement of the application. It checks under the lock whether
// the statement may be sent: no statement may follow the end of the branch.
func (b *branch) runStatement(query string, f func(c any) error) error {
	return b.conn.raw(func(c any) error {
		if err := b.check(query); err != nil {
			return err
		}
		return f(c)
	})
}

// managedStmt is a prepared statement of a managed connection. database/sql prepares one for every
// statement with arguments. The application may use it after the end of the branch, when another
// transaction has the connection; it is refused then.
type managedStmt struct {
	branch *branch
	inner  driver.Stmt
}

var (
	_ driver.StmtExecContext   = (*managedStmt)(nil)
	_ driver.StmtQueryContext  = (*managedStmt)(nil)
	_ driver.NamedValueChecker = (*managedStmt)(nil)
)

// Close implements [driver.Stmt]. After the end of the branch it does nothing.
func (s *managedStmt) Close() error {
	s.branch.conn.mu.Lock()
	released := s.branch.conn.released
	s.branch.conn.mu.Unlock()
	if released {
		return nil
	}
	return s.branch.conn.raw(func(any) error {
		delete(s.branch.conn.prepared, s)
		return s.inner.Close()
	})
}

// NumInput implements [driver.Stmt].
func (s *managedStmt) NumInput() int { return s.inner.NumInput() }

// Exec implements [driver.Stmt].
func (s *managedStmt) Exec([]driver.Value) (driver.Result, error) { return nil, driver.ErrSkip }

// Query implements [driver.Stmt].
func (s *managedStmt) Query([]driver.Value) (driver.Rows, error) { return nil, driver.ErrSkip }

// ExecContext implements [driver.StmtExecContext].
func (s *managedStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (res driver.Result, _ error) {
	err := s.branch.runStatement("", func(any) (err error) {
		inner, ok := s.inner.(driver.StmtExecContext)
		if !ok {
			return fmt.Errorf("a statement of type %T cannot execute", s.inner)
		}
		res, err = inner.ExecContext(ctx, args)
		return err
	})
	return res, s.branch.checkError(ctx, err)
}

// QueryContext implements [driver.StmtQueryContext].
func (s *managedStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	var rows driver.Rows
	err := s.branch.runStatement("", func(any) (err error) {
		inner, ok := s.inner.(driver.StmtQueryContext)
		if !ok {
			return fmt.Errorf("a statement of type %T cannot query", s.inner)
		}
		rows, err = inner.QueryContext(s.branch.conn.boundContext(ctx), args)
		return err
	})
	return s.branch.rows(ctx, rows, err)
}

// CheckNamedValue implements [driver.NamedValueChecker].
func (s *managedStmt) CheckNamedValue(v *driver.NamedValue) error {
	if inner, ok := s.inner.(driver.NamedValueChecker); ok {
		return inner.CheckNamedValue(v)
	}
	return driver.ErrSkip
}
