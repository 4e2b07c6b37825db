package web

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

var errTxReplaced = errors.New("the local transaction is not the one that was begun")

// lockedRow is a branch's row that a local transaction has locked. Its detail in the database is
// then the token of that transaction: the barrier never commits a row with a token, so one that
// is committed with it was committed by a statement of the callback or of a library.
type lockedRow struct {
	store         *SQLStore
	xid           string
	state, detail string // before the transaction
	txMark, token string // they identify the transaction
}

// lock inserts the branch's row, if there is none, waits for its lock, and writes the token of this
// transaction into it.
func (s *SQLStore) lock(ctx context.Context, tx *sql.Tx, xid string) (*lockedRow, error) {
	r := &lockedRow{store: s, xid: xid, token: rand.Text()}
	if _, err := tx.ExecContext(ctx, s.dialect.insert(s.table), xid, r.token, time.Now().UnixMilli()); err != nil {
		return nil, err
	}
	err := tx.QueryRowContext(ctx, s.dialect.find(s.table), xid).Scan(&r.state, &r.detail, &r.txMark)
	switch {
	case err != nil:
		return nil, err
	case r.state == stateNone && r.detail == r.token:
		r.detail = "" // this transaction inserted the row
	case r.state == statePrepared: // the callback of the next phase works in this transaction
		_, err = tx.ExecContext(ctx, s.dialect.writeToken(s.table), r.token, xid)
	default:
		r.token = r.detail // no callback works in this transaction
	}
	return r, err
}

// committedWithToken reports whether an earlier transaction was committed with its token. If that
// transaction inserted the row, the token may be missing: earlier releases wrote none.
func (r *lockedRow) committedWithToken() bool {
	return r.state == stateNone && r.token == r.detail || r.state == statePrepared && r.detail != ""
}

// committedDetail is the new detail of a row that was committed with a token. If the prepare has
// committed it, the work of the branch is committed.
func (r *lockedRow) committedDetail() string {
	if r.state == stateNone {
		return detailCommitted
	}
	return ""
}

// end writes the row and commits. The error is errTxReplaced if the transaction is not the one that
// locked the row any more.
func (r *lockedRow) end(ctx context.Context, tx *sql.Tx, state, detail string) error {
	s := r.store
	changed, err := tx.ExecContext(ctx, s.dialect.update(s.table), state, detail, time.Now().UnixMilli(), r.xid, r.token, r.txMark)
	if err != nil {
		return fmt.Errorf("barrier: write %s of %s: %w", state, r.xid, err)
	}
	if n, err := changed.RowsAffected(); err != nil || n != 1 {
		return fmt.Errorf("barrier: write %s of %s: %d rows, %w: the callback, or an error that it did not return, has ended the transaction", state, r.xid, n, errors.Join(errTxReplaced, err))
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("barrier: commit %s of %s: %w", state, r.xid, err)
	}
	return nil
}

// recordTimeout bounds the queries after a callback has ended its transaction: the time of the
// phase may be over by then.
const recordTimeout = 5 * time.Second

// recordEndedByApplication determines the outcome of a transaction that step has ended, and records
// it in the row. further: later statements may have been committed one by one; then a transaction
// that was rolled back is recorded too, without a detail. Otherwise nothing of a rolled back
// transaction remains, and nothing is recorded.
func (s *SQLStore) recordEndedByApplication(ctx context.Context, was *lockedRow, further bool) (bool, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return false, fmt.Errorf("barrier: begin: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // without effect after a commit
	r, err := s.lock(ctx, tx, was.xid)
	switch {
	case err != nil:
		return false, fmt.Errorf("barrier: lock the row of %s: %w", was.xid, err)
	case r.state == stateEndedByApplication:
		return true, nil // another request has recorded it
	case r.committedWithToken():
		return true, r.end(ctx, tx, stateEndedByApplication, r.committedDetail())
	case further && r.state == was.state:
		return true, r.end(ctx, tx, stateEndedByApplication, "")
	}
	return false, nil
}
