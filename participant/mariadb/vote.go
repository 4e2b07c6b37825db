package mariadb

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"

	"github.com/txmgr/txmgr/participant/mariadb/internal/errno"
	"github.com/txmgr/txmgr/txn"
)

// Prepare implements [txn.Resource].
func (b *branch) Prepare(ctx context.Context) (txn.Vote, error) {
	b.workEnded.Store(true)
	if b.phase != phaseOpen {
		return 0, errors.New("there is no transaction to prepare")
	}
	b.phase = phaseUnknown
	if b.readOnly {
		return b.commitReadOnly(ctx)
	}
	err := b.runFinal(ctx, "XA END "+b.name+"; XA PREPARE "+b.name)
	if err == nil {
		b.phase = phasePrepared
		return txn.VotePrepared, nil
	}
	undone, err := b.rollbackAfter(ctx, err)
	if !undone {
		return 0, b.unprovenError(fmt.Errorf("prepare: %w", err))
	}
	return txn.VoteNo, fmt.Errorf("prepare: %w", err)
}

// runFinal runs the statements that end the branch, in one round trip, if the transaction is still
// the branch's: otherwise its savepoint does not exist, whatever the transaction's name is.
func (b *branch) runFinal(ctx context.Context, statements string) error {
	return b.run(ctx, "BEGIN NOT ATOMIC RELEASE SAVEPOINT "+b.savepoint+"; "+statements+"; END")
}

// run runs a statement of this package.
func (b *branch) run(ctx context.Context, statement string) error {
	return b.conn.raw(func(c any) error {
		conn, ok := c.(driver.ExecerContext)
		if !ok {
			return fmt.Errorf("a connection of type %T cannot execute", c)
		}
		_, err := conn.ExecContext(ctx, statement, nil)
		return err
	})
}

// rollbackAfter rolls back a branch that could not be prepared, committed or rolled back in one
// block, and explains why. The server may have rolled it back itself, after a deadlock for
// example; the XA transaction then still exists until XA ROLLBACK. Its savepoint does not, so it
// proves nothing any more: if a statement may have ended the transaction, it is not known whether
// the server has rolled back the branch's own.
func (b *branch) rollbackAfter(ctx context.Context, why error) (undone bool, _ error) {
	if errors.Is(why, driver.ErrBadConn) || errors.Is(why, mysql.ErrBusyBuffer) {
		return false, fmt.Errorf("the connection is broken, or rows of an earlier query are still open: %w", why)
	}
	if !errno.IsStatementError(why) {
		return false, why
	}
	if errno.Of(why) == errno.NoSavepoint {
		ended := b.run(ctx, "XA END "+b.name)
		if !errno.IsRollbackOnly(ended) || b.mayHaveEnded.Load() {
			_ = b.run(ctx, xaRollback+" "+b.name) // of any transaction with this name; the answer proves nothing
			return false, endedByApplicationError("an XA statement", errors.Join(why, ended))
		}
		why = ended
	} else if b.mayHaveEnded.Load() && !errno.FailedAfterSavepoint(why) {
		return false, why // the caller adds unprovenError
	}
	err := b.run(ctx, xaRollback+" "+b.name)
	switch n := errno.Of(err); {
	case err == nil, errno.IsRolledBack(err), n == errno.NOTA && (errno.IsRollbackOnly(why) || errno.Of(why) == errno.LockTimeout):
		b.phase = phaseEnded
		return true, managedError(why)
	case errno.NotInXA(err):
		why = endedByApplicationError("an XA statement", why)
	default:
		why = errors.Join(why, err)
	}
	return false, why
}

// commitReadOnly ends a branch that changed nothing.
func (b *branch) commitReadOnly(ctx context.Context) (txn.Vote, error) {
	err := b.runFinal(ctx, "COMMIT")
	switch {
	case err == nil:
		b.phase = phaseEnded
		return txn.VoteReadOnly, nil
	case errno.Of(err) == errno.NoSavepoint || errno.NotInXA(err):
		return 0, b.readOnlyEndedError(err)
	}
	return 0, fmt.Errorf("commit: %w", err)
}

// Commit implements [txn.Resource].
func (b *branch) Commit(ctx context.Context) error {
	return b.finish(ctx, xaCommit+" "+b.name)
}

// Rollback implements [txn.Resource]. A lost connection is not a success: the server may still run
// a long statement for it, and keeps its locks until the coordinator ends it. Nor is the branch
// known to be rolled back if a statement was sent that may have ended it.
func (b *branch) Rollback(ctx context.Context) error {
	prepared := b.phase == phasePrepared
	err := b.rollback(ctx)
	if err == nil || prepared {
		return err
	}
	return b.unprovenError(err)
}

func (b *branch) rollback(ctx context.Context) error {
	b.workEnded.Store(true)
	switch {
	case b.phase == phasePrepared:
		return b.finish(ctx, xaRollback+" "+b.name)
	case b.phase == phaseEnded:
		return nil
	case b.phase == phaseUnknown:
		return fmt.Errorf("mariadb %s: the state of the transaction is not known", b.db.name)
	case b.readOnly:
		b.phase = phaseUnknown
		err := b.runFinal(ctx, "ROLLBACK")
		switch {
		case err == nil:
			b.phase = phaseEnded
			return nil
		case errno.Of(err) == errno.NoSavepoint || errno.NotInXA(err):
			return b.readOnlyEndedError(err)
		}
		return fmt.Errorf("mariadb %s: roll back: %w", b.db.name, err)
	}
	b.phase = phaseUnknown
	err := b.runFinal(ctx, "XA END "+b.name+"; "+xaRollback+" "+b.name)
	if err == nil {
		b.phase = phaseEnded
		return nil
	}
	if undone, err := b.rollbackAfter(ctx, err); !undone {
		return fmt.Errorf("mariadb %s: roll back branch %s: %w", b.db.name, b.xid, err)
	}
	return nil
}

func (b *branch) finish(ctx context.Context, statement string) error {
	b.phase = phaseUnknown
	if err := b.run(ctx, statement); err != nil {
		return fmt.Errorf("mariadb %s: finish branch %s: %w", b.db.name, b.xid, err)
	}
	b.phase = phaseEnded
	return nil
}
