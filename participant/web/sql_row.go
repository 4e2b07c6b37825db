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

// lockedRow is a branch's row that a local transaction has locked. Its detail in the
// database is then the token of that transaction: one that is committed with a token was
// committed by something else than the barrier.
type lockedRow struct {
	store         *SQLStore
	xid           string
	state, detail string // as they were before
	txMark, token string // of the transaction
}

// lock makes the branch's row, if there is none, waits until nobody else has it, and
// leaves the token of this transaction there.
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
		r.detail = "" // it was not there
	case r.state == statePrepared: // the next phase works in this transaction
		_, err = tx.ExecContext(ctx, s.dialect.writeToken(s.table), r.token, xid)
	default:
		r.token = r.detail // nothing is done in this transaction
	}
	return r, err
}

// committedWithToken reports whether an earlier transaction was committed with its token. Of one
// that made the row there need not be one: earlier releases wrote none.
func (r *lockedRow) committedWithToken() bool {
	return r.state == stateNone && r.token == r.detail || r.state == statePrepared && r.detail != ""
}

// committedDetail is the detail of a row that was committed with a token. What a prepare
// has committed is the work of the branch.
func (r *lockedRow) committedDetail() string {
	if r.state == stateNone {
		return detailCommitted
	}
	return ""
}

// end writes the row and commits. The error is errEnded when the transaction is another,
// or none.
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

// recordTimeout bounds what is done after a transaction was ended by hand: the time of the
// phase may be over.
const recordTimeout = 5 * time.Second

// recordEndedByApplication looks what became of a transaction that step has ended, and has the row say
// so. That is all that is known of one that was rolled back when further statements may
// have been committed one by one; otherwise nothing remains of it, and it is not by hand.
func (s *SQLStore) recordEndedByApplication(ctx context.Context, was *lockedRow, further bool) (bool, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return false, fmt.Errorf("barrier: begin: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // nothing after a commit
	r, err := s.lock(ctx, tx, was.xid)
	switch {
	case err != nil:
		return false, fmt.Errorf("barrier: lock the row of %s: %w", was.xid, err)
	case r.state == stateEndedByApplication:
		return true, nil // another request has found out
	case r.committedWithToken():
		return true, r.end(ctx, tx, stateEndedByApplication, r.committedDetail())
	case further && r.state == was.state:
		return true, r.end(ctx, tx, stateEndedByApplication, "")
	}
	return false, nil
}
