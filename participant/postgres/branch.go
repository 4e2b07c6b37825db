package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txmgr/txmgr/participant/postgres/internal/sqlstate"
	"github.com/txmgr/txmgr/participant/postgres/internal/sqltext"
	"github.com/txmgr/txmgr/txn"
)

// branch is the application's side of one branch. It implements [txn.Resource].
//
// It keeps its connection until Release, although the server does not need it after PREPARE
// TRANSACTION: a commit that queued for a connection would hold its row locks meanwhile, against
// clients that occupy the connections and wait for the rows.
type branch struct {
	name        string
	conn        *pgxpool.Conn
	tx          *managedTx
	sessionRef  SessionRef
	xid         string
	readOnly    bool
	marked      bool        // its marker row is written
	prepared    statements  // with which its commit is sent; nil: as text
	workEnded   atomic.Bool // no further statements are accepted
	phase       branchPhase
	mark        string      // identifies a transaction that only reads; see [sqltext.MarkSetting]
	connExposed atomic.Bool // the application was given the connection itself
	appEnded    atomic.Bool // the application's own statements have ended it, or may have
	endedErr    error       // how, as the server reported
}

// branchPhase is the state in which Prepare left a branch.
type branchPhase uint8

const (
	phaseOpen     branchPhase = iota // not asked for its vote yet
	phasePrepared                    // voted yes
	phaseEnded                       // committed or rolled back
	phaseUnknown                     // only the coordinator can determine it
)

// The states of a connection, as pgconn reports them.
const (
	statusIdle   = 'I'
	statusFailed = 'E'
)

// Prepare implements [txn.Resource].
func (b *branch) Prepare(ctx context.Context) (txn.Vote, error) {
	b.workEnded.Store(true)
	ended := b.endedByApplication()
	b.phase = phaseUnknown
	switch {
	case ended:
		return 0, b.endedByApplicationError(ctx)
	case b.conn.Conn().PgConn().TxStatus() == statusFailed:
		if err := b.Rollback(ctx); err != nil {
			return 0, err
		}
		return txn.VoteNo, errFailedEarlier
	}
	if b.readOnly {
		return b.commitReadOnly(ctx)
	}
	name, err := sqltext.Literal(b.xid)
	if err != nil {
		return 0, err
	}
	// One round trip: it identifies the transaction and prepares it.
	results, err := b.conn.Conn().PgConn().Exec(ctx, b.identity()+"; PREPARE TRANSACTION "+name).ReadAll()
	if err != nil {
		return b.prepareError(ctx, results, err)
	}
	return b.checkPrepared(ctx, results)
}

// checkPrepared checks what PREPARE TRANSACTION really did.
func (b *branch) checkPrepared(ctx context.Context, results []*pgconn.Result) (txn.Vote, error) {
	if len(results) != 2 || results[1].CommandTag.String() != "PREPARE TRANSACTION" {
		b.phase = phaseEnded
		return txn.VoteNo, errors.New("the transaction had failed, and was rolled back")
	}
	if single(results[0]) != fmt.Sprint(b.sessionRef.XID) {
		err := finishPrepared(ctx, b.conn, rollbackPrepared, b.xid)
		return 0, errors.Join(b.txReplacedError(ctx), err)
	}
	b.phase = phasePrepared
	return txn.VotePrepared, nil
}

// prepareError returns the vote and error for a PREPARE TRANSACTION that failed. If the server
// answered with an error, it has rolled the transaction back: the branch's, if the query before
// it returned the branch's number.
func (b *branch) prepareError(ctx context.Context, results []*pgconn.Result, err error) (txn.Vote, error) {
	switch {
	case !sqlstate.IsStatementError(err) || b.conn.Conn().PgConn().TxStatus() != statusIdle:
		return 0, b.unprovenError(fmt.Errorf("prepare: %w", err))
	case len(results) == 0 || single(results[0]) != fmt.Sprint(b.sessionRef.XID):
		return 0, fmt.Errorf("%w (%w)", b.txReplacedError(ctx), err)
	}
	b.phase = phaseEnded
	switch sqlstate.Of(err) {
	case sqlstate.Full:
		return txn.VoteNo, fmt.Errorf("prepare: no room for another prepared transaction; raise max_prepared_transactions and restart the server: %w", err)
	case sqlstate.Busy:
		return txn.VoteNo, fmt.Errorf("prepare: run ALTER SYSTEM SET max_prepared_transactions = 200 and restart the server: %w", err)
	}
	return txn.VoteNo, fmt.Errorf("prepare: %w", err)
}

// commitReadOnly ends a branch that changed nothing. SQL can make a transaction that began
// read-only write; it then has a number.
func (b *branch) commitReadOnly(ctx context.Context) (txn.Vote, error) {
	var number, mark *string
	err := b.conn.QueryRow(ctx, "SELECT pg_current_xact_id_if_assigned()::text, current_setting('"+sqltext.MarkSetting+"', true)", pgx.QueryExecModeSimpleProtocol).Scan(&number, &mark)
	if err != nil {
		return 0, b.unprovenError(fmt.Errorf("ask whether the transaction wrote: %w", err))
	}
	if mark == nil || *mark != b.mark {
		return 0, b.setEndedErr(errMarkLost)
	}
	if number != nil {
		if err := b.Rollback(ctx); err != nil {
			return 0, err
		}
		return txn.VoteNo, errors.New("the database is used read-only, but the transaction wrote (after SET TRANSACTION READ WRITE, or to a temporary table); leave ReadOnly out of TxOptions")
	}
	tag, err := b.conn.Exec(ctx, "COMMIT", pgx.QueryExecModeSimpleProtocol)
	switch {
	case err != nil && !sqlstate.IsStatementError(err):
		return 0, fmt.Errorf("commit: %w", err)
	case err != nil:
		b.phase = phaseEnded
		return txn.VoteNo, fmt.Errorf("commit: %w", err)
	case tag.String() != "COMMIT":
		b.phase = phaseEnded
		return txn.VoteNo, fmt.Errorf("the transaction had failed: COMMIT was answered by %s", tag)
	}
	b.phase = phaseEnded
	return txn.VoteReadOnly, nil
}

// Commit implements [txn.Resource].
func (b *branch) Commit(ctx context.Context) error {
	return b.finish(ctx, commitPrepared)
}

// Rollback implements [txn.Resource]. A lost connection is not a success: its backend may be
// running a long statement, and keeps its locks until the coordinator terminates it.
func (b *branch) Rollback(ctx context.Context) error {
	b.workEnded.Store(true)
	switch {
	case b.phase == phasePrepared:
		return b.finish(ctx, rollbackPrepared)
	case b.phase == phaseEnded:
		return nil
	case b.endedByApplication():
		return fmt.Errorf("postgres %s: %w", b.name, b.endedByApplicationError(ctx))
	case b.conn.Conn().PgConn().TxStatus() == statusIdle:
		return fmt.Errorf("postgres %s: there is no transaction to roll back", b.name)
	}
	return b.rollbackOpen(ctx)
}

func (b *branch) finish(ctx context.Context, statement string) error {
	if err := finishPrepared(ctx, b.conn, statement, b.xid); err != nil {
		return fmt.Errorf("postgres %s: finish branch %s: %w", b.name, b.xid, err)
	}
	b.phase = phaseEnded
	return nil
}

// Release implements [txn.Resource]. The pool closes a connection that is not idle.
func (b *branch) Release() { b.conn.Release() }
