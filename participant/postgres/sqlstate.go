package postgres

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// The SQLSTATEs that this package handles.
const (
	stateNotFound      = "42704" // undefined_object: no such prepared transaction
	stateOtherDatabase = "0A000" // feature_not_supported: it belongs to another database
	stateNotAllowed    = "42501" // insufficient_privilege
	stateBusy          = "55000" // object_not_in_prerequisite_state: another backend finishes it
	stateFull          = "53200" // out_of_memory: no free slot for a prepared transaction
	stateNoFile        = "58P01" // undefined_file
	stateByZero        = "22012" // division_by_zero: lets a one-phase commit fail on purpose
	stateInvalid       = "22023" // invalid_parameter_value: a transaction number of the future
)

// stateOf returns the SQLSTATE of an error, "" if it has none.
func stateOf(err error) string {
	if pg := new(pgconn.PgError); errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// isStatementError reports whether an error is the answer of a backend that continues: only the
// statement failed.
func isStatementError(err error) bool {
	pg := new(pgconn.PgError)
	return errors.As(err, &pg) && (pg.SeverityUnlocalized == "ERROR" || pg.SeverityUnlocalized == "" && pg.Severity == "ERROR")
}

// noEffect reports whether a statement that was sent certainly had no effect: a server that
// continues to serve refused it. [pgconn.SafeToRetry] does not prove that: it is also true if the
// connection was lost before the answer.
func noEffect(err error) bool { return isStatementError(err) && !connectionLost(stateOf(err)) }

// connectionLost reports whether a SQLSTATE means that the connection is being closed, or that a
// pooler lost its server: what was sent may have been executed.
func connectionLost(state string) bool {
	return strings.HasPrefix(state, "08") || strings.HasPrefix(state, "57P")
}

// literal quotes a text for a statement that takes no parameters, whatever
// standard_conforming_strings says.
func literal(s string) (string, error) {
	if strings.ContainsRune(s, 0) {
		return "", fmt.Errorf("text %q has a zero byte", clip(s))
	}
	quoted := "'" + strings.ReplaceAll(s, "'", "''") + "'"
	if strings.Contains(s, `\`) {
		return " E" + strings.ReplaceAll(quoted, `\`, `\\`), nil
	}
	return quoted, nil
}
