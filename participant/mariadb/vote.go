package mariadb

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"

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
	return b.raw(func(c any) error {
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
	if !isStatementError(why) {
		return false, why
	}
	if numberOf(why) == codeNoSavepoint {
		ended := b.run(ctx, "XA END "+b.name)
		if !rollbackOnly(ended) || b.mayHaveEnded.Load() {
			_ = b.run(ctx, xaRollback+" "+b.name) // of any transaction with this name; the answer proves nothing
			return false, endedByApplicationError("an XA statement", errors.Join(why, ended))
		}
		why = ended
	} else if b.mayHaveEnded.Load() && !failedAfterSavepoint(why) {
		return false, why // the caller adds unprovenError
	}
	err := b.run(ctx, xaRollback+" "+b.name)
	switch n := numberOf(err); {
	case err == nil, rolledBackBy(err), n == codeNOTA && (rollbackOnly(why) || numberOf(why) == codeLockTimeout):
		b.phase = phaseEnded
		return true, managedError(why)
	case notInXA(err):
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
	case numberOf(err) == codeNoSavepoint || notInXA(err):
		return 0, b.readOnlyEndedError(err)
	}
	return 0, fmt.Errorf("commit: %w", err)
}

// endedByApplicationError is the error of a transaction that the application has ended.
func endedByApplicationError(by string, err error) error {
	return fmt.Errorf("%w: by %s; what it did, and each statement after that, may be committed: %w", txn.ErrEndedByApplication, by, err)
}

// readOnlyEndedError explains why a read-only transaction does not exist any more.
func (b *branch) readOnlyEndedError(err error) error {
	if b.serverRolledBack.Load() && !b.mayHaveEnded.Load() {
		return fmt.Errorf("%w: %w", errRolledBackByServer, err)
	}
	return endedByApplicationError("a COMMIT or ROLLBACK", err)
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

// unprovenError explains a failure after which the coordinator can only determine whether the
// branch's work is committed or not: that does not show what a statement that ended the branch
// has committed. It is called after the failure, when nothing more can be sent.
func (b *branch) unprovenError(err error) error {
	if b.mayHaveEnded.Load() && !errors.Is(err, txn.ErrEndedByApplication) && !errors.Is(err, errRolledBackByServer) {
		return fmt.Errorf("%w, or may have been: which transaction was open at the end is not known, and a statement was sent that may have ended it (a block, EXECUTE, CALL, several at once, or one that commits): %w", txn.ErrEndedByApplication, err)
	}
	return err
}

func (b *branch) rollback(ctx context.Context) error {
	b.workEnded.Store(true)
	switch {
	case b.phase == phasePrepared:
		return b.finish(ctx, xaRollback+" "+b.name)
	case b.phase == phaseEnded:
		return nil
	case b.phase == phaseUnknown:
		return fmt.Errorf("mariadb %s: it is not known what became of the transaction", b.db.name)
	case b.readOnly:
		b.phase = phaseUnknown
		err := b.runFinal(ctx, "ROLLBACK")
		switch {
		case err == nil:
			b.phase = phaseEnded
			return nil
		case numberOf(err) == codeNoSavepoint || notInXA(err):
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

// notInXA reports whether an error says that the connection is not in its XA transaction.
func notInXA(err error) bool {
	n := numberOf(err)
	return n == codeNOTA || n == codeRMFail || n == codeOutside
}

func (b *branch) finish(ctx context.Context, statement string) error {
	b.phase = phaseUnknown
	if err := b.run(ctx, statement); err != nil {
		return fmt.Errorf("mariadb %s: finish branch %s: %w", b.db.name, b.xid, err)
	}
	b.phase = phaseEnded
	return nil
}

// OnePhase implements [txn.OnePhaseCommitter].
func (b *branch) OnePhase() bool { return b.markers != "" && !b.readOnly }

// CommitOnePhase implements [txn.OnePhaseCommitter].
func (b *branch) CommitOnePhase(ctx context.Context) (txn.BranchState, error) {
	b.workEnded.Store(true)
	if b.phase != phaseOpen {
		return 0, errors.New("there is no transaction to commit")
	}
	b.phase = phaseUnknown
	err := b.runFinal(ctx, "XA END "+b.name+"; "+xaCommit+" "+b.name+" ONE PHASE")
	if err == nil {
		b.phase = phaseEnded
		return txn.BranchCommitted, nil
	}
	undone, err := b.rollbackAfter(ctx, err)
	if !undone {
		return 0, b.unprovenError(fmt.Errorf("commit: %w", err))
	}
	return txn.BranchRolledBack, fmt.Errorf("commit: %w", err)
}
