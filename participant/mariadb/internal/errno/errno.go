package errno

import (
	"database/sql/driver"
	"errors"
	"net"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// The errors of MariaDB that the driver handles.
const (
	Changed        = 1020 // read before, and changed since (innodb_snapshot_isolation)
	DatabaseDenied = 1044 // access to the database denied
	Null           = 1048 // for a column that has none
	Shutdown       = 1053
	Duplicate      = 1062
	NoThread       = 1094 // KILL: there is no such connection
	KillDenied     = 1095 // KILL: it is another user's
	TableDenied    = 1142
	NoTable        = 1146
	LockTimeout    = 1205
	Deadlock       = 1213
	ReadLock       = 1223 // FLUSH TABLES WITH READ LOCK of the same connection
	Denied         = 1227 // a privilege is missing
	ReadOnly       = 1290 // --read-only
	Interrupted    = 1317
	NoSavepoint    = 1305
	NOTA           = 1397 // no such XA transaction, or not for this connection
	RMFail         = 1399 // not in this state of the connection's XA transaction
	Outside        = 1400 // the connection has work outside of the XA transaction
	Rollback       = 1402 // rolled back by the server
	DupID          = 1440
	RBTimeout      = 1613 // rolled back: it took too long
	RBDeadlock     = 1614 // rolled back: deadlock
	Signal         = 1644 // the driver's own SIGNAL
	Killed         = 1927 // connection killed
	StatementTime  = 1969 // max_statement_time exceeded
)

// Of returns the server's number of an error, 0 if it is not the server's.
func Of(err error) uint16 {
	if my := new(mysql.MySQLError); errors.As(err, &my) {
		return my.Number
	}
	return 0
}

// IsStatementError reports whether an error is the answer of a connection that continues.
func IsStatementError(err error) bool {
	n := Of(err)
	return n != 0 && n != Shutdown && n != Killed && n != Interrupted
}

// IsRolledBack reports whether an error says that the server has rolled the XA transaction back,
// or refuses to commit it.
func IsRolledBack(err error) bool {
	return slices.Contains([]uint16{Rollback, RBTimeout, RBDeadlock}, Of(err))
}

// IsRollbackOnly reports whether an error says that the server has rolled the connection's XA
// transaction back, and waits for XA ROLLBACK. For error 1399 only the text states the
// transaction's state.
func IsRollbackOnly(err error) bool {
	return IsRolledBack(err) || Of(err) == RMFail && strings.Contains(err.Error(), "ROLLBACK ONLY")
}

// FailedAfterSavepoint reports whether an error of a block that begins with RELEASE SAVEPOINT is
// from a later statement: RELEASE SAVEPOINT itself does not return these errors.
func FailedAfterSavepoint(err error) bool {
	return IsRolledBack(err) || NotInXA(err) || slices.Contains([]uint16{LockTimeout, ReadLock, ReadOnly}, Of(err))
}

// NotInXA reports whether an error says that the connection is not in its XA transaction.
func NotInXA(err error) bool {
	n := Of(err)
	return n == NOTA || n == RMFail || n == Outside
}

// NoEffect reports whether XA COMMIT or XA ROLLBACK certainly had no effect: it was not sent, or
// refused before it did anything.
func NoEffect(err error) bool {
	if errors.Is(err, driver.ErrBadConn) {
		return true // the driver returns it only if the statement was not sent
	}
	if op := new(net.OpError); errors.As(err, &op) && op.Op == "dial" {
		return true
	}
	return slices.Contains([]uint16{LockTimeout, ReadLock, ReadOnly, RMFail, Outside}, Of(err))
}
