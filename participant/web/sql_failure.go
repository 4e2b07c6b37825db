package web

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// afterFailure gives back an error of step. When the transaction is another by then, or none,
// further statements may have been committed, so that neither a no would be true nor a
// repetition right: the row says so before.
func (s *SQLStore) afterFailure(ctx context.Context, tx *sql.Tx, r *lockedRow, failure error) error {
	if !r.txReplaced(ctx, tx) {
		return failure
	}
	_ = tx.Rollback() // of what was begun in its place
	if _, err := s.recordEndedByApplication(ctx, r, true); err != nil {
		return fmt.Errorf("%w; the callback had ended the transaction: %v", err, failure) // which is no vote
	}
	return failure
}

// txReplaced reports whether the session answers that the transaction is not the one that
// was begun. There is no answer where the connection or its [sql.Tx] is no more, nor, in
// PostgreSQL, in a transaction that has failed. One that the server itself has rolled back
// was not replaced by another, unless more was done.
func (r *lockedRow) txReplaced(ctx context.Context, tx *sql.Tx) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	last, err := r.store.dialect.lastError(ctx, tx) // before another statement of ours
	if err != nil {
		return false
	}
	var ours, timeoutEnds bool
	err = tx.QueryRowContext(ctx, r.store.dialect.ours(r.store.table), r.xid, r.token, r.txMark).Scan(&ours, &timeoutEnds)
	switch {
	case err != nil, ours:
		return false
	case last == codeLockTimeout:
		return !timeoutEnds
	}
	return last != codeChanged && last != codeLockTableFull && last != codeDeadlock
}

// The errors of MariaDB with which it rolls a whole transaction back.
const (
	codeChanged       = 1020 // read before, and changed since (innodb_snapshot_isolation)
	codeLockTimeout   = 1205 // if its setting says so
	codeLockTableFull = 1206
	codeDeadlock      = 1213
)

// lastError gives the number of the error with which the session's last statement failed
// in MariaDB, which keeps it until the next: 0 if it did not fail.
func (d Dialect) lastError(ctx context.Context, tx *sql.Tx) (code int, err error) {
	if d != MariaDB {
		return 0, nil
	}
	rows, err := tx.QueryContext(ctx, "SHOW ERRORS")
	if err != nil {
		return 0, err
	}
	for rows.Next() {
		var level, text string
		err = errors.Join(err, rows.Scan(&level, &code, &text))
	}
	return code, errors.Join(err, rows.Err(), rows.Close())
}
