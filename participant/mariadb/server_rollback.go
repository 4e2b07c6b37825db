package mariadb

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/txmgr/txmgr/participant/mariadb/internal/errno"
	"github.com/txmgr/txmgr/txn"
)

// errRolledBackByServer is the error of a read-only transaction.
var errRolledBackByServer = errors.New("the server has rolled the transaction back, after a deadlock, a lock timeout or a change of what it had read")

// checkError converts the error of a statement as [managedError] does, and records that the server
// has rolled back a read-only transaction. ctx is the statement's.
func (b *branch) checkError(ctx context.Context, err error) error {
	switch errno.Of(err) {
	case errno.Deadlock, errno.LockTimeout, errno.Changed:
		// For an XA transaction the server keeps that state itself. Whether it rolls back after
		// a timeout is one of its settings.
		if b.readOnly && !b.inTransaction(ctx) {
			b.serverRolledBack.Store(true)
		}
	}
	return managedError(err)
}

// inTransaction reports whether the connection is in a transaction; true if that cannot be
// determined.
func (b *branch) inTransaction(ctx context.Context) bool {
	var value [1]driver.Value
	err := b.conn.raw(func(c any) error {
		conn, ok := c.(driver.QueryerContext)
		if !ok {
			return fmt.Errorf("a connection of type %T cannot query", c)
		}
		rows, err := conn.QueryContext(b.conn.boundContext(ctx), "SELECT IF(@@in_transaction, 'yes', 'no')", nil)
		if err != nil {
			return err
		}
		err = rows.Next(value[:])
		if text, ok := value[0].([]byte); ok {
			value[0] = string(text) // a copy: the driver's buffer is used again
		}
		return errors.Join(err, rows.Close())
	})
	return err != nil || value[0] != "no"
}

// managedError explains the server's refusal of a statement that would end the transaction, or
// that follows a rollback by the server.
func managedError(err error) error {
	switch {
	case errno.Of(err) != errno.RMFail:
		return err
	case errno.IsRollbackOnly(err):
		return fmt.Errorf("the server has rolled the transaction back, after a deadlock or a timeout: %w", err)
	}
	return fmt.Errorf("%w: end the global one: %w", txn.ErrManaged, err)
}
