package mariadb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"sync"
)

// branchConn is the connection of a branch. The pool gets it back with release, and not before;
// then neither the branch's statements nor its rows reach it any more.
type branchConn struct {
	*sql.Conn

	mu       sync.Mutex // held while the driver's connection is used directly; guards the two below
	released bool       // another transaction may use the connection
	prepared map[*managedStmt]bool

	lifetime    context.Context // ends with release, which also closes open rows
	endLifetime context.CancelFunc
}

func newBranchConn(conn *sql.Conn) *branchConn {
	c := &branchConn{Conn: conn}
	c.lifetime, c.endLifetime = context.WithCancel(context.Background())
	return c
}

// boundContext returns a context for a query whose rows may outlive the call: it ends with the
// branch's lifetime too.
func (c *branchConn) boundContext(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	context.AfterFunc(c.lifetime, cancel)
	return ctx
}

// raw calls f with the driver's connection, exclusively: neither the connection nor its
// statements and rows are safe for concurrent use. It bypasses [sql.Conn], which would wait for
// ever for rows that the application has not closed. After Release it does not call f.
func (c *branchConn) raw(f func(driverConn any) error) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.released {
		return errBranchEnded
	}
	raw := c.Conn.Raw(func(driverConn any) error {
		err = f(driverConn)
		return nil // an error could close the connection, with the same wait
	})
	if raw != nil {
		return raw
	}
	return err
}

// trackStmt records a prepared statement of a branch until it is closed. The caller holds mu.
func (c *branchConn) trackStmt(b *branch, inner driver.Stmt) *managedStmt {
	s := &managedStmt{branch: b, inner: inner}
	if c.prepared == nil {
		c.prepared = map[*managedStmt]bool{}
	}
	c.prepared[s] = true
	return s
}

// release gives the connection back to the pool if it is clean, and closes it otherwise.
func (c *branchConn) release(clean bool) {
	defer c.endLifetime()
	c.detach(clean)
	if clean {
		_ = c.Close() // it is back in the pool
		return
	}
	// Close may wait for rows that the application has not closed.
	go func() { _ = c.Close() }()
}

// detach closes the branch's prepared statements, or the driver's connection if it is not clean,
// and lets nothing of the branch use it any more.
func (c *branchConn) detach(clean bool) {
	_ = c.raw(func(driverConn any) error {
		conn, ok := driverConn.(driver.Conn)
		switch {
		case clean:
			for s := range c.prepared {
				_ = s.inner.Close() // the server keeps it as long as the connection lives
			}
		case ok:
			_ = conn.Close() // statements in flight may still arrive
		}
		return nil
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.released = true
}
