package mariadb

import (
	"database/sql/driver"
	"errors"
	"net"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// The errors of MariaDB that mean something here.
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
	codeReadLock       = 1223 // FLUSH TABLES WITH READ LOCK of the own session
	codeDenied         = 1227 // a privilege is missing
	codeReadOnly       = 1290 // --read-only
	codeInterrupted    = 1317
	codeNoSavepoint    = 1305
	codeNOTA           = 1397 // no such XA transaction, or not for this session
	codeRMFail         = 1399 // not in this state of the session's XA transaction
	codeOutside        = 1400 // the session has work of its own
	codeRollback       = 1402 // rolled back by the server
	codeDupID          = 1440
	codeRBTimeout      = 1613 // rolled back: it took too long
	codeRBDeadlock     = 1614 // rolled back: deadlock
	codeSignal         = 1644 // our own SIGNAL
	codeKilled         = 1927 // connection killed
	codeStatementTime  = 1969 // max_statement_time is over
)

// numberOf gives the server's number of an error, 0 when it is not the server's.
func numberOf(err error) uint16 {
	if my := new(mysql.MySQLError); errors.As(err, &my) {
		return my.Number
	}
	return 0
}

// isStatementError reports whether an error is an answer of a session that lives on.
func isStatementError(err error) bool {
	n := numberOf(err)
	return n != 0 && n != codeShutdown && n != codeKilled && n != codeInterrupted
}

// rolledBackBy reports whether an error says that the server has rolled the XA
// transaction back, or will not have it committed.
func rolledBackBy(err error) bool {
	return slices.Contains([]uint16{codeRollback, codeRBTimeout, codeRBDeadlock}, numberOf(err))
}

// rollbackOnly reports whether an error says that the server has rolled the session's XA
// transaction back, and waits for XA ROLLBACK. Of 1399 only the text says in which state
// the transaction is.
func rollbackOnly(err error) bool {
	return rolledBackBy(err) || numberOf(err) == codeRMFail && strings.Contains(err.Error(), "ROLLBACK ONLY")
}

// failedAfterSavepoint reports whether an error of a block that releases the branch's savepoint first
// is of a statement after that: RELEASE SAVEPOINT itself is not answered so.
func failedAfterSavepoint(err error) bool {
	return rolledBackBy(err) || notInXA(err) || slices.Contains([]uint16{codeLockTimeout, codeReadLock, codeReadOnly}, numberOf(err))
}

// noEffect reports whether XA COMMIT or XA ROLLBACK surely did nothing: it was not
// sent, or refused before anything was done.
func noEffect(err error) bool {
	if errors.Is(err, driver.ErrBadConn) {
		return true // which the driver says only of what it has not sent
	}
	if op := new(net.OpError); errors.As(err, &op) && op.Op == "dial" {
		return true
	}
	return slices.Contains([]uint16{codeLockTimeout, codeReadLock, codeReadOnly, codeRMFail, codeOutside}, numberOf(err))
}
