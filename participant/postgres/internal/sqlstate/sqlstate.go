package sqlstate

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// The SQLSTATEs that the driver handles.
const (
	NotFound      = "42704" // undefined_object: no such prepared transaction
	OtherDatabase = "0A000" // feature_not_supported: it belongs to another database
	NotAllowed    = "42501" // insufficient_privilege
	Busy          = "55000" // object_not_in_prerequisite_state: another backend finishes it
	Full          = "53200" // out_of_memory: no free slot for a prepared transaction
	NoFile        = "58P01" // undefined_file
	ByZero        = "22012" // division_by_zero: lets a one-phase commit fail on purpose
	Invalid       = "22023" // invalid_parameter_value: a transaction number of the future
	NoTable       = "42P01" // undefined_table
	NoSchema      = "3F000" // invalid_schema_name
	Duplicate     = "23505" // unique_violation
	LockTimeout   = "55P03" // lock_not_available
	ReadOnly      = "25006" // read_only_sql_transaction

	noStatement        = "26000" // invalid_sql_statement_name: it is not prepared
	duplicateStatement = "42P05" // duplicate_prepared_statement
)

// Of returns the SQLSTATE of an error, "" if it has none.
func Of(err error) string {
	if pg := new(pgconn.PgError); errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// IsStatementError reports whether an error is the answer of a backend that continues: only the
// statement failed.
func IsStatementError(err error) bool {
	pg := new(pgconn.PgError)
	return errors.As(err, &pg) && (pg.SeverityUnlocalized == "ERROR" || pg.SeverityUnlocalized == "" && pg.Severity == "ERROR")
}

// NoEffect reports whether a statement that was sent certainly had no effect: a server that
// continues to serve refused it. [pgconn.SafeToRetry] does not prove that: it is also true if the
// connection was lost before the answer.
func NoEffect(err error) bool { return IsStatementError(err) && !ConnectionLost(Of(err)) }

// ConnectionLost reports whether a SQLSTATE means that the connection is being closed, or that a
// pooler lost its server: what was sent may have been executed.
func ConnectionLost(state string) bool {
	return strings.HasPrefix(state, "08") || strings.HasPrefix(state, "57P")
}

// NotPrepared reports whether what is prepared on the connection is not what its client has
// prepared: a pooler has assigned another backend, or statements were removed.
func NotPrepared(err error) bool {
	state := Of(err)
	return state == noStatement || state == duplicateStatement
}
