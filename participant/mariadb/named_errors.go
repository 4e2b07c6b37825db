package mariadb

import (
	"database/sql"
	"fmt"
)

// wrapErr adds the participant's name to an error: an application that uses several has to know
// which one it is from. [sql.ErrNoRows] stays as it is, because callers compare with it.
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
