package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txmgr/txmgr/txn"
)

// branch is the application's side of one branch. It implements [txn.Session].
//
// It keeps its connection until Release, although the server needs it no more
// after PREPARE TRANSACTION: a commit that had to queue for a connection would
// hold its row locks meanwhile, against those that have the connections and wait
// for the rows.
type branch struct {
	name     string
	conn     *pgxpool.Conn
	guard    *guard
	session  Session
	xid      string
	readOnly bool
	onePhase bool        // wanted; see [DB.OnePhase]
	over     atomic.Bool // no more work
	end      branchEnd
}

// branchEnd is what Prepare left.
type branchEnd uint8

const (
	endOpen     branchEnd = iota // not asked yet
	endPrepared                  // voted yes
	endNone                      // there is nothing left of it
	endUnknown                   // only the coordinator can find out
)

// The states of a connection, as pgconn gives them.
const (
	statusIdle   = 'I'
	statusFailed = 'E'
)

// Prepare implements [txn.Session].
func (b *branch) Prepare(ctx context.Context) (txn.Vote, error) {
	b.over.Store(true)
	b.end = endUnknown
	switch b.conn.Conn().PgConn().TxStatus() {
	case statusIdle:
		return 0, errEndedByHand
	case statusFailed:
		if err := b.Rollback(ctx); err != nil {
			return 0, err
		}
		return txn.VoteNo, errFailedEarlier
	}
	if b.readOnly {
		return b.commitReadOnly(ctx)
	}
	name, err := literal(b.xid)
	if err != nil {
		return 0, err
	}
	// One round trip: which transaction is this, and prepare it.
	results, err := b.conn.Conn().PgConn().Exec(ctx, "SELECT pg_current_xact_id_if_assigned()::text; PREPARE TRANSACTION "+name).ReadAll()
	if err != nil {
		return b.refused(err)
	}
	return b.prepared(ctx, results)
}

// prepared looks at what PREPARE TRANSACTION really did.
func (b *branch) prepared(ctx context.Context, results []*pgconn.Result) (txn.Vote, error) {
	if len(results) != 2 || results[1].CommandTag.String() != "PREPARE TRANSACTION" {
		b.end = endNone
		return txn.VoteNo, errors.New("the transaction had failed, and was rolled back")
	}
	if rows := results[0].Rows; len(rows) != 1 || len(rows[0]) != 1 || string(rows[0][0]) != fmt.Sprint(b.session.XID) {
		err := finishPrepared(ctx, b.conn, rollbackPrepared, b.xid)
		return 0, errors.Join(b.replaced(), err)
	}
	b.end = endPrepared
	return txn.VotePrepared, nil
}

// refused says what an error of PREPARE TRANSACTION means. An answer means that
// the transaction has been rolled back already.
func (b *branch) refused(err error) (txn.Vote, error) {
	if !answered(err) || b.conn.Conn().PgConn().TxStatus() != statusIdle {
		return 0, fmt.Errorf("prepare: %w", err)
	}
	b.end = endNone
	switch stateOf(err) {
	case stateFull:
		return txn.VoteNo, fmt.Errorf("prepare: no room for another prepared transaction; raise max_prepared_transactions and restart the server: %w", err)
	case stateBusy:
		return txn.VoteNo, fmt.Errorf("prepare: run ALTER SYSTEM SET max_prepared_transactions = 200 and restart the server: %w", err)
	}
	return txn.VoteNo, fmt.Errorf("prepare: %w", err)
}

// commitReadOnly ends a branch that did not change anything. SQL can make a
// transaction that began read-only write; that gives it a number.
func (b *branch) commitReadOnly(ctx context.Context) (txn.Vote, error) {
	var number *string
	err := b.conn.QueryRow(ctx, "SELECT pg_current_xact_id_if_assigned()::text", pgx.QueryExecModeSimpleProtocol).Scan(&number)
	if err != nil {
		return 0, fmt.Errorf("ask whether the transaction wrote: %w", err)
	}
	if number != nil {
		if err := b.Rollback(ctx); err != nil {
			return 0, err
		}
		return txn.VoteNo, errors.New("the database is used read-only, but the transaction wrote (after SET TRANSACTION READ WRITE, or to a temporary table); leave ReadOnly out of TxOptions")
	}
	tag, err := b.conn.Exec(ctx, "COMMIT", pgx.QueryExecModeSimpleProtocol)
	switch {
	case err != nil && !answered(err):
		return 0, fmt.Errorf("commit: %w", err)
	case err != nil:
		b.end = endNone
		return txn.VoteNo, fmt.Errorf("commit: %w", err)
	case tag.String() != "COMMIT":
		b.end = endNone
		return txn.VoteNo, fmt.Errorf("the transaction had failed: COMMIT was answered by %s", tag)
	}
	b.end = endNone
	return txn.VoteReadOnly, nil
}

// Commit implements [txn.Session].
func (b *branch) Commit(ctx context.Context) error {
	return b.finish(ctx, commitPrepared)
}

// Rollback implements [txn.Session]. A session that was lost is no success: its
// process may be at a long statement, and keep its locks until the coordinator
// ends it.
func (b *branch) Rollback(ctx context.Context) error {
	b.over.Store(true)
	switch {
	case b.end == endPrepared:
		return b.finish(ctx, rollbackPrepared)
	case b.end == endNone:
		return nil
	case b.conn.Conn().PgConn().TxStatus() == statusIdle:
		return fmt.Errorf("postgres %s: there is no transaction to roll back", b.name)
	}
	tag, err := b.conn.Exec(ctx, "ROLLBACK", pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return fmt.Errorf("postgres %s: rollback: %w", b.name, err)
	}
	if tag.String() != "ROLLBACK" {
		return fmt.Errorf("postgres %s: ROLLBACK was answered by %s", b.name, tag)
	}
	b.end = endNone
	return nil
}

func (b *branch) finish(ctx context.Context, statement string) error {
	if err := finishPrepared(ctx, b.conn, statement, b.xid); err != nil {
		return fmt.Errorf("postgres %s: finish branch %s: %w", b.name, b.xid, err)
	}
	b.end = endNone
	return nil
}

// Release implements [txn.Session]. The pool closes a connection that is not
// idle.
func (b *branch) Release() { b.conn.Release() }
