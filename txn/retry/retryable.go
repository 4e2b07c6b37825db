package retry

import (
	"errors"
	"slices"

	"github.com/go-sql-driver/mysql"

	"github.com/txmgr/txmgr/txn"
)

// Retryable reports whether the work of a transaction that ended with err, as [txn.Run] returned it, may
// be done again, in a new transaction, and may then succeed. It is false if it is not certain that nothing was applied,
// whatever the reason; and for errors that another attempt would not cure.
func Retryable(err error) bool {
	return safe(err) && passing(err)
}

// safe reports whether surely nothing was applied.
func safe(err error) bool {
	for _, never := range []error{txn.ErrEndedByApplication, txn.ErrInDoubt, txn.ErrHeuristic, txn.ErrForgotten} {
		if errors.Is(err, never) {
			return false
		}
	}
	if errors.Is(err, txn.ErrRolledBack) {
		return true
	}
	// An unanswered begin may have arrived, but its transaction has no work and ends at its deadline.
	// Below another error it may be the begin of another transaction.
	e, own := err.(*txn.Error)
	return own && e.Op == "begin"
}

// passing reports whether the reason of a failure is one that passes.
func passing(err error) bool {
	switch {
	case errors.Is(err, txn.ErrTimedOut):
		return false // whatever else went wrong, the next attempt has no more time
	case errors.Is(err, txn.ErrUnavailable):
		return true
	}
	var standard interface{ SQLState() string } // of pgx and lib/pq
	if errors.As(err, &standard) && slices.Contains(passingStates, standard.SQLState()) {
		return true
	}
	var maria *mysql.MySQLError
	return errors.As(err, &maria) && slices.Contains(passingNumbers, maria.Number)
}

// passingStates are PostgreSQL's SQLSTATEs after which its documentation recommends to repeat the
// transaction ("Serialization Failure Handling"): serialization_failure and deadlock_detected.
var passingStates = []string{"40001", "40P01"}

// passingNumbers are the same of MariaDB: ER_LOCK_DEADLOCK, ER_CHECKREAD (a row has changed since
// the snapshot was taken), and what XA says when the server has chosen a branch as the victim:
// ER_XA_RBDEADLOCK.
var passingNumbers = []uint16{1213, 1020, 1614}
