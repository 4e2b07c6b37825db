package mariadb

import (
	"database/sql/driver"
	"errors"
	"net"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// The errors of MariaDB that this package handles.
const (
	codeChanged        = 1020 // read before, and changed since (innodb_snapshot_isolation)
	codeDatabaseDenied = 1044 // access to the database denied
	codeShutdown       = 1053
	codeDuplicate      = 1062
	codeNoThread       = 1094 // KILL: there is no such connection
	codeKillDenied     = 1095 // KILL: it is another user's
	codeTableDenied    = 1142
	codeNoTable        = 1146
	codeLockTimeout    = 1205
	codeDeadlock       = 1213
	codeReadLock       = 1223 // FLUSH TABLES WITH READ LOCK of the same connection
	codeDenied         = 1227 // a privilege is missing
	codeReadOnly       = 1290 // --read-only
	codeInterrupted    = 1317
	codeNoSavepoint    = 1305
	codeNOTA           = 1397 // no such XA transaction, or not for this connection
	codeRMFail         = 1399 // not in this state of the connection's XA transaction
	codeOutside        = 1400 // the connection has work outside of the XA transaction
	codeRollback       = 1402 // rolled back by the server
	codeDupID          = 1440
	codeRBTimeout      = 1613 // rolled back: it took too long
	codeRBDeadlock     = 1614 // rolled back: deadlock
	codeSignal         = 1644 // the driver's own SIGNAL
	codeKilled         = 1927 // connection killed
	codeStatementTime  = 1969 // max_statement_time exceeded
)

// numberOf returns the server's number of an error, 0 if it is not the server's.
func numberOf(err error) uint16 {
	if my := new(mysql.MySQLError); errors.As(err, &my) {
		return my.Number
	}
	return 0
}

// isStatementError reports whether an error is the answer of a connection that continues.
func isStatementError(err error) bool {
	n := numberOf(err)
	return n != 0 && n != codeShutdown && n != codeKilled && n != codeInterrupted
}

// rolledBackBy reports whether an error says that the server has rolled the XA transaction back,
// or refuses to commit it.
func rolledBackBy(err error) bool {
	return slices.Contains([]uint16{codeRollback, codeRBTimeout, codeRBDeadlock}, numberOf(err))
}

// rollbackOnly reports whether an error says that the server has rolled the connection's XA
// transaction back, and waits for XA ROLLBACK. For error 1399 only the text states the
// transaction's state.
func rollbackOnly(err error) bool {
	return rolledBackBy(err) || numberOf(err) == codeRMFail && strings.Contains(err.Error(), "ROLLBACK ONLY")
}

// failedAfterSavepoint reports whether an error of a block that begins with RELEASE SAVEPOINT is
// from a later statement: RELEASE SAVEPOINT itself does not return these errors.
func failedAfterSavepoint(err error) bool {
	return rolledBackBy(err) || notInXA(err) || slices.Contains([]uint16{codeLockTimeout, codeReadLock, codeReadOnly}, numberOf(err))
}

// noEffect reports whether XA COMMIT or XA ROLLBACK certainly had no effect: it was not sent, or
// refused before it did anything.
func noEffect(err error) bool {
	if errors.Is(err, driver.ErrBadConn) {
		return true // the driver returns it only if the statement was not sent
	}
	if op := new(net.OpError); errors.As(err, &op) && op.Op == "dial" {
		return true
	}
	return slices.Contains([]uint16{codeLockTimeout, codeReadLock, codeReadOnly, codeRMFail, codeOutside}, numberOf(err))
}
