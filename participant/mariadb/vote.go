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
	err := b.run(ctx, "BEGIN NOT ATOMIC XA END "+b.name+"; XA PREPARE "+b.name+"; END")
	if err == nil {
		b.end = endPrepared
		return txn.VotePrepared, nil
	}
	undone, err := b.undo(ctx, err)
	if !undone {
		return 0, fmt.Errorf("prepare: %w", err)
	}
	return txn.VoteNo, fmt.Errorf("prepare: %w", err)
}

// run runs one of our own statements. It goes past [sql.Conn], which would wait for
// rows that the application has forgotten to close, for ever.
func (b *branch) run(ctx context.Context, statement string) (err error) {
	raw := b.conn.Raw(func(c any) error {
		conn, ok := c.(driver.ExecerContext)
		if !ok {
			err = fmt.Errorf("a connection of type %T cannot execute", c)
			return nil
		}
		_, err = conn.ExecContext(ctx, statement, nil)
		return nil // or the connection would be closed, with the same wait
	})
	return errors.Join(raw, err)
}

// undo rolls back what could not be prepared or committed, and explains why. The server may have
// done so itself, after a deadlock for example; the XA transaction is there all
// the same until it is told.
func (b *branch) undo(ctx context.Context, why error) (undone bool, _ error) {
	if errors.Is(why, driver.ErrBadConn) || errors.Is(why, mysql.ErrBusyBuffer) {
		return false, fmt.Errorf("the connection is broken, or rows of an earlier query are still open: %w", why)
	}
	if !answered(why) {
		return false, why
	}
	err := b.run(ctx, xaRollback+" "+b.name)
	switch n := numberOf(err); {
	case err == nil, rolledBackBy(err), n == codeNOTA && (rolledBackBy(why) || numberOf(why) == codeLockTimeout):
		b.end = endNone
		return true, managed(why)
	case n == codeNOTA || n == codeRMFail || n == codeOutside:
		why = fmt.Errorf("the transaction was ended by an XA statement of the application's own; what it did may be committed: %w", why)
	default:
		why = errors.Join(why, err)
	}
	return false, why
}

// commitReadOnly ends a branch that did not change anything.
func (b *branch) commitReadOnly(ctx context.Context) (txn.Vote, error) {
	err := b.run(ctx, "BEGIN NOT ATOMIC RELEASE SAVEPOINT "+savepoint+"; COMMIT; END")
	switch {
	case err == nil:
		b.end = endNone
		return txn.VoteReadOnly, nil
	case numberOf(err) == codeNoSavepoint:
		return 0, fmt.Errorf("the transaction was ended by a COMMIT or ROLLBACK of the application's own; what it did since may be committed: %w", err)
	}
	return 0, fmt.Errorf("commit: %w", err)
}

// Commit implements [txn.Session].
func (b *branch) Commit(ctx context.Context) error {
	return b.finish(ctx, xaCommit+" "+b.name)
}

// Rollback implements [txn.Session]. A session that was lost is no success: its
// connection may be at a long statement, and keep its locks until the coordinator
// ends it.
func (b *branch) Rollback(ctx context.Context) error {
	b.over.Store(true)
	switch {
	case b.end == endPrepared:
		return b.finish(ctx, xaRollback+" "+b.name)
	case b.end == endNone:
		return nil
	case b.end == endUnknown:
		return fmt.Errorf("mariadb %s: it is not known what became of the transaction", b.db.name)
	case b.readOnly:
		return b.finish(ctx, "ROLLBACK")
	}
	// XA END fails when the server has rolled back already, and XA ROLLBACK is due
	// nevertheless.
	if err := b.run(ctx, "XA END "+b.name); err != nil && !answered(err) {
		b.end = endUnknown
		return fmt.Errorf("mariadb %s: roll back branch %s: %w", b.db.name, b.xid, err)
	}
	return b.finish(ctx, xaRollback+" "+b.name)
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
	err := b.run(ctx, "BEGIN NOT ATOMIC XA END "+b.name+"; "+xaCommit+" "+b.name+" ONE PHASE; END")
	if err == nil {
		b.end = endNone
		return txn.BranchCommitted, nil
	}
	undone, err := b.undo(ctx, err)
	if !undone {
		return 0, fmt.Errorf("commit: %w", err)
	}
	return txn.BranchRolledBack, fmt.Errorf("commit: %w", err)
}
