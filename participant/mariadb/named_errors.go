package mariadb

import (
	"database/sql"
	"fmt"
)

// wrapErr names the participant in an error of work: an application that works in several
// has one error in its hands. That there is no row is an answer, which callers compare
// with.
func (db *DB) wrapErr(err error) error {
	if err == nil || err == sql.ErrNoRows {
		return err
	}
	return fmt.Errorf("%s: %w", db.name, err)
}

// namedRow is a row whose errors name the participant.
type namedRow struct {
	Row
	db *DB
}

// Scan implements [Row].
func (r namedRow) Scan(dest ...any) error { return r.db.wrapErr(r.Row.Scan(dest...)) }
