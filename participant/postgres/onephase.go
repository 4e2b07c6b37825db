package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txmgr/txmgr/participant/postgres/internal/sqlstate"
	"github.com/txmgr/txmgr/txn"
)

var _ txn.OnePhaseCommitter = (*branch)(nil)

// OnePhase implements [txn.OnePhaseCommitter]. Without a marker row a number proves nothing, after
// a crash of the server, about a branch that was not prepared.
func (b *branch) OnePhase() bool {
	return b.marked && !b.readOnly && b.phase == phaseOpen && !b.endedByApplication()
}

// checkNumber fails, and the commit behind it, unless $1 is the number of the transaction that is open; and
// it makes the commit wait for the disk.
const checkNumber = "SELECT 1 / (pg_current_xact_id_if_assigned()::text IS NOT DISTINCT FROM $1)::int, set_config('synchronous_commit', replace(current_setting('synchronous_commit'), 'off', 'on'), true)"

const commit = "COMMIT"

// CommitOnePhase implements [txn.OnePhaseCommitter].
func (b *branch) CommitOnePhase(ctx context.Context) (txn.BranchState, error) {
	b.workEnded.Store(true)
	ended := b.endedByApplication()
	b.phase = phaseUnknown
	conn := b.conn.Conn().PgConn()
	switch {
	case ended:
		return 0, b.endedByApplicationError(ctx)
	case conn.TxStatus() == statusFailed:
		if err := b.Rollback(ctx); err != nil {
			return 0, err
		}
		return txn.BranchRolledBack, errFailedEarlier
	}
	results, err := exec(ctx, conn, b.prepared, command{checkNumber, []string{strconv.FormatUint(b.sessionRef.XID, 10)}}, command{text: commit})
	return b.checkCommitted(ctx, results, err)
}

var errFailedEarlier = errors.New("an earlier statement failed, and the transaction with it")

// checkCommitted checks what COMMIT really did. An answer that it failed means that the
// transaction has been rolled back: PostgreSQL does not fail after the commit.
func (b *branch) checkCommitted(ctx context.Context, results []*pgconn.Result, err error) (txn.BranchState, error) {
	last := len(results) - 1
	switch {
	case err != nil && (!sqlstate.IsStatementError(err) || b.conn.Conn().PgConn().TxStatus() == 0 || sqlstate.ConnectionLost(sqlstate.Of(err))):
		return 0, b.unprovenError(fmt.Errorf("commit: %w", err))
	case err != nil && (last < 0 || results[0].Err != nil) && sqlstate.Of(err) == sqlstate.ByZero:
		return 0, b.rollbackReplaced(ctx, err)
	case err != nil && sqlstate.NotPrepared(err):
		// The application's statements have removed the prepared ones.
		forgetPrepared(b.conn.Conn())
		return b.rolledBackInstead(ctx, err)
	case err != nil && b.conn.Conn().PgConn().TxStatus() != statusIdle:
		return 0, b.unprovenError(fmt.Errorf("commit: %w", err))
	case err != nil:
		b.phase = phaseEnded
		return txn.BranchRolledBack, fmt.Errorf("commit: %w", err)
	case last >= 0 && results[last].CommandTag.String() == "COMMIT":
		b.phase = phaseEnded
		return txn.BranchCommitted, nil
	case last >= 0 && results[last].CommandTag.String() == "ROLLBACK":
		b.phase = phaseEnded
		return txn.BranchRolledBack, errFailedEarlier
	}
	return 0, fmt.Errorf("COMMIT was answered by %d results", len(results))
}

// rolledBackInstead rolls back a transaction whose commit was not sent to its end.
func (b *branch) rolledBackInstead(ctx context.Context, why error) (txn.BranchState, error) {
	if err := b.Rollback(ctx); err != nil {
		return 0, errors.Join(err, why)
	}
	return txn.BranchRolledBack, fmt.Errorf("commit: %w", why)
}

// rollbackReplaced rolls back a transaction that is not the branch's any more.
func (b *branch) rollbackReplaced(ctx context.Context, why error) error {
	_, err := b.conn.Conn().PgConn().Exec(ctx, "ROLLBACK").ReadAll()
	return errors.Join(fmt.Errorf("%w (%w)", b.txReplacedError(ctx), why), err)
}
