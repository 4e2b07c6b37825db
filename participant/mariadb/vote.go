package mariadb

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"

	"github.com/txmgr/txmgr/txn"
)

// Prepare implements [txn.Session].
func (b *branch) Prepare(ctx context.Context) (txn.Vote, error) {
	b.over.Store(true)
	if b.end != endOpen {
		return 0, errors.New("there is no transaction to prepare")
	}
	b.end = endUnknown
	if b.readOnly {
		return b.commitReadOnly(ctx)
	}
	err := b.last(ctx, "XA END "+b.name+"; XA PREPARE "+b.name)
	if err == nil {
		b.end = endPrepared
		return txn.VotePrepared, nil
	}
	undone, err := b.undo(ctx, err)
	if !undone {
		return 0, b.unproved(fmt.Errorf("prepare: %w", err))
	}
	return txn.VoteNo, fmt.Errorf("prepare: %w", err)
}

// last runs the statements that end the branch, in one round trip, if the transaction
// is still the branch's: otherwise its savepoint is not there, whatever the name of the
// transaction that is.
func (b *branch) last(ctx context.Context, statements string) error {
	return b.run(ctx, "BEGIN NOT ATOMIC RELEASE SAVEPOINT "+b.mark+"; "+statements+"; END")
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

// undo rolls back what could not be prepared, committed or rolled back in one block, and
// explains why. The server may have done so itself, after a deadlock for example; the XA
// transaction is there all the same until it is told. The server takes the savepoint away
// with that, and so it is proof no more: of a transaction that may have been ended it is
// not known whether it was the branch's own that the server has rolled back.
func (b *branch) undo(ctx context.Context, why error) (undone bool, _ error) {
	if errors.Is(why, driver.ErrBadConn) || errors.Is(why, mysql.ErrBusyBuffer) {
		return false, fmt.Errorf("the connection is broken, or rows of an earlier query are still open: %w", why)
	}
	if !answered(why) {
		return false, why
	}
	if numberOf(why) == codeNoSavepoint {
		ended := b.run(ctx, "XA END "+b.name)
		if !rollbackOnly(ended) || b.mayHaveEnded.Load() {
			_ = b.run(ctx, xaRollback+" "+b.name) // of what may have this name; the answer says nothing of the branch
			return false, byHand("an XA statement", errors.Join(why, ended))
		}
		why = ended
	} else if b.mayHaveEnded.Load() && !released(why) {
		return false, why // and b.unproved says the rest
	}
	err := b.run(ctx, xaRollback+" "+b.name)
	switch n := numberOf(err); {
	case err == nil, rolledBackBy(err), n == codeNOTA && (rollbackOnly(why) || numberOf(why) == codeLockTimeout):
		b.end = endNone
		return true, managed(why)
	case gone(err):
		why = byHand("an XA statement", why)
	default:
		why = errors.Join(why, err)
	}
	return false, why
}

// commitReadOnly ends a branch that did not change anything.
func (b *branch) commitReadOnly(ctx context.Context) (txn.Vote, error) {
	err := b.last(ctx, "COMMIT")
	switch {
	case err == nil:
		b.end = endNone
		return txn.VoteReadOnly, nil
	case numberOf(err) == codeNoSavepoint || gone(err):
		return 0, b.readOnlyEnded(err)
	}
	return 0, fmt.Errorf("commit: %w", err)
}

// byHand is the error of a transaction that the application has ended.
func byHand(by string, err error) error {
	return fmt.Errorf("%w: by %s; what it did, and each statement after that, may be committed: %w", txn.ErrEndedByHand, by, err)
}

// readOnlyEnded explains why a transaction is not there that only reads.
func (b *branch) readOnlyEnded(err error) error {
	if b.undone.Load() && !b.mayHaveEnded.Load() {
		return fmt.Errorf("%w: %w", errUndone, err)
	}
	return byHand("a COMMIT or ROLLBACK", err)
}

// Commit implements [txn.Session].
func (b *branch) Commit(ctx context.Context) error {
	return b.finish(ctx, xaCommit+" "+b.name)
}

// Rollback implements [txn.Session]. A session that was lost is no success: its
// connection may be at a long statement, and keep its locks until the coordinator
// ends it. Nor is it known to be rolled back when a statement was sent that may have
// ended it.
func (b *branch) Rollback(ctx context.Context) error {
	prepared := b.end == endPrepared
	err := b.rollback(ctx)
	if err == nil || prepared {
		return err
	}
	return b.unproved(err)
}

// unproved explains a failure of which the coordinator may find out no more than that the
// branch's work is there or not: what a statement committed that ended the branch is not
// seen by that. It comes after the failure, when nothing more can be sent.
func (b *branch) unproved(err error) error {
	if b.mayHaveEnded.Load() && !errors.Is(err, txn.ErrEndedByHand) && !errors.Is(err, errUndone) {
		return fmt.Errorf("%w, or may have been: which transaction was open at the end is not known, and a statement was sent that may have ended it (a block, EXECUTE, CALL, several at once, or one that commits): %w", txn.ErrEndedByHand, err)
	}
	return err
}

func (b *branch) rollback(ctx context.Context) error {
	b.over.Store(true)
	switch {
	case b.end == endPrepared:
		return b.finish(ctx, xaRollback+" "+b.name)
	case b.end == endNone:
		return nil
	case b.end == endUnknown:
		return fmt.Errorf("mariadb %s: it is not known what became of the transaction", b.db.name)
	case b.readOnly:
		b.end = endUnknown
		err := b.last(ctx, "ROLLBACK")
		switch {
		case err == nil:
			b.end = endNone
			return nil
		case numberOf(err) == codeNoSavepoint || gone(err):
			return b.readOnlyEnded(err)
		}
		return fmt.Errorf("mariadb %s: roll back: %w", b.db.name, err)
	}
	b.end = endUnknown
	err := b.last(ctx, "XA END "+b.name+"; "+xaRollback+" "+b.name)
	if err == nil {
		b.end = endNone
		return nil
	}
	if undone, err := b.undo(ctx, err); !undone {
		return fmt.Errorf("mariadb %s: roll back branch %s: %w", b.db.name, b.xid, err)
	}
	return nil
}

// gone reports whether an error says that the session is not in its XA transaction.
func gone(err error) bool {
	n := numberOf(err)
	return n == codeNOTA || n == codeRMFail || n == codeOutside
}

func (b *branch) finish(ctx context.Context, statement string) error {
	b.end = endUnknown
	if err := b.run(ctx, statement); err != nil {
		return fmt.Errorf("mariadb %s: finish branch %s: %w", b.db.name, b.xid, err)
	}
	b.end = endNone
	return nil
}

// OnePhase implements [txn.OnePhaser].
func (b *branch) OnePhase() bool { return b.proof != "" && !b.readOnly }

// CommitOnePhase implements [txn.OnePhaser].
func (b *branch) CommitOnePhase(ctx context.Context) (txn.BranchState, error) {
	b.over.Store(true)
	if b.end != endOpen {
		return 0, errors.New("there is no transaction to commit")
	}
	b.end = endUnknown
	err := b.last(ctx, "XA END "+b.name+"; "+xaCommit+" "+b.name+" ONE PHASE")
	if err == nil {
		b.end = endNone
		return txn.BranchCommitted, nil
	}
	undone, err := b.undo(ctx, err)
	if !undone {
		return 0, b.unproved(fmt.Errorf("commit: %w", err))
	}
	return txn.BranchRolledBack, fmt.Errorf("commit: %w", err)
}
