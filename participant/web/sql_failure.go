package web

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// afterFailure returns an error of step. If the callback has ended the transaction, later
// statements may have been committed, so that neither a no nor a repetition would be right: that
// is recorded in the row first.
func (s *SQLStore) afterFailure(ctx context.Context, tx *sql.Tx, r *lockedRow, failure error) error {
	if !r.txReplaced(ctx, tx) {
		return failure
	}
	_ = tx.Rollback() // of another transaction that was begun in its place
	if _, err := s.recordEndedByApplication(ctx, r, true); err != nil {
		return fmt.Errorf("%w; the callback had ended the transaction: %v", err, failure) // %v: it is not a vote
	}
	return failure
}

// txReplaced reports whether the connection answers that the transaction is not the one that was
// begun. There is no answer if the connection or its [sql.Tx] has ended, nor, in PostgreSQL, in a
// transaction that has failed. A transaction that the server itself has rolled back does not
// count as replaced, unless statements followed.
func (r *lockedRow) txReplaced(ctx context.Context, tx *sql.Tx) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	last, err := r.store.dialect.lastError(ctx, tx) // before the next statement clears it
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

// The errors of MariaDB after which it has rolled back the whole transaction.
const (
	codeChanged       = 1020 // read before, and changed since (innodb_snapshot_isolation)
	codeLockTimeout   = 1205 // if its setting says so
	codeLockTableFull = 1206
	codeDeadlock      = 1213
)

// lastError returns the number of the error of the connection's last statement, which MariaDB keeps
// until the next one: 0 if it did not fail.
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
