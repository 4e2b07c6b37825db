package mariadb

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"

	"github.com/txmgr/txmgr/txn"
)

// Prepare implements [txn.SessionRef].
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

// runFinal runs the statements that end the branch, in one round trip, if the transaction
// is still the branch's: otherwise its savepoint is not there, whatever the name of the
// transaction that is.
func (b *branch) runFinal(ctx context.Context, statements string) error {
	return b.run(ctx, "BEGIN NOT ATOMIC RELEASE SAVEPOINT "+b.savepoint+"; "+statements+"; END")
}

// run runs one of our own statements.
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

// rollbackAfter rolls back what could not be prepared, committed or rolled back in one block, and
// explains why. The server may have done so itself, after a deadlock for example; the XA
// transaction is there all the same until it is told. The server takes the savepoint away
// with that, and so it is proof no more: of a transaction that may have been ended it is
// not known whether it was the branch's own that the server has rolled back.
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
			_ = b.run(ctx, xaRollback+" "+b.name) // of what may have this name; the answer says nothing of the branch
			return false, endedByApplicationError("an XA statement", errors.Join(why, ended))
		}
		why = ended
	} else if b.mayHaveEnded.Load() && !failedAfterSavepoint(why) {
		return false, why // and b.unproved says the rest
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

// commitReadOnly ends a branch that did not change anything.
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

// readOnlyEndedError explains why a transaction is not there that only reads.
func (b *branch) readOnlyEndedError(err error) error {
	if b.serverRolledBack.Load() && !b.mayHaveEnded.Load() {
		return fmt.Errorf("%w: %w", errRolledBackByServer, err)
	}
	return endedByApplicationError("a COMMIT or ROLLBACK", err)
}

// Commit implements [txn.SessionRef].
func (b *branch) Commit(ctx context.Context) error {
	return b.finish(ctx, xaCommit+" "+b.name)
}

// Rollback implements [txn.SessionRef]. A session that was lost is no success: its
// connection may be at a long statement, and keep its locks until the coordinator
// ends it. Nor is it known to be rolled back when a statement was sent that may have
// ended it.
func (b *branch) Rollback(ctx context.Context) error {
	prepared := b.phase == phasePrepared
	err := b.rollback(ctx)
	if err == nil || prepared {
		return err
	}
	return b.unprovenError(err)
}

// unprovenError explains a failure of which the coordinator may find out no more than that the
// branch's work is there or not: what a statement committed that ended the branch is not
// seen by that. It comes after the failure, when nothing more can be sent.
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

// notInXA reports whether an error says that the session is not in its XA transaction.
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
