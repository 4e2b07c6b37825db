package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txmgr/txmgr/participant/internal/excerpt"
	"github.com/txmgr/txmgr/participant/postgres/internal/sqltext"
	"github.com/txmgr/txmgr/txn"
)

// errEndedByApplication is the error of a statement that ended the transaction, and of later
// statements, which are not sent.
var errEndedByApplication = fmt.Errorf("%w: what the transaction did may be committed", txn.ErrEndedByApplication)

// endedByApplication reports whether the application's own statements have ended the transaction:
// the connection is idle although this package has not ended it. The branch remembers that, since
// another transaction may begin on the connection.
func (b *branch) endedByApplication() bool {
	if b.phase == phaseOpen && b.conn.Conn().PgConn().TxStatus() == statusIdle {
		b.appEnded.Store(true)
	}
	return b.appEnded.Load()
}

// errUnproven is the error of a branch whose transaction cannot be distinguished from another any
// more: on the connection itself the application may have ended it, committed other work, and
// begun another one.
var errUnproven = fmt.Errorf("%w: the application was given its connection (Conn), the transaction on it failed or the connection was lost, and it cannot be proved that the transaction was still the branch's: what was sent on Conn may be committed", txn.ErrEndedByApplication)

// errMarkLost is the error of a read-only branch whose mark is not set any more.
var errMarkLost = fmt.Errorf("%w: the branch is read-only, and its mark, the setting %s, is not set any more: either the transaction was ended, and %s, or its settings were reset", txn.ErrEndedByApplication, sqltext.MarkSetting, autocommitDetail)

// unprovenError is the error of a branch that failed before it was known which transaction is
// open, which matters only if the application was given the connection.
func (b *branch) unprovenError(err error) error {
	if !b.connExposed.Load() {
		return err
	}
	return fmt.Errorf("%w (%w)", b.setEndedErr(errUnproven), err)
}

// setEndedErr records how the transaction ended. The first error is kept and returned.
func (b *branch) setEndedErr(how error) error {
	b.appEnded.Store(true)
	if b.endedErr == nil {
		b.endedErr = how
	}
	return b.endedErr
}

// endedByApplicationError asks the server, once, how a transaction ended that the application
// has ended.
func (b *branch) endedByApplicationError(ctx context.Context) error {
	if b.endedErr == nil {
		return b.setEndedErr(b.queryEnded(ctx))
	}
	return b.endedErr
}

const autocommitDetail = "each statement after that was committed at once, outside of the global transaction"

func (b *branch) queryEnded(ctx context.Context) error {
	if b.readOnly {
		return fmt.Errorf("%w: the branch is read-only, and %s", txn.ErrEndedByApplication, autocommitDetail)
	}
	var status, name string
	err := b.conn.QueryRow(ctx, `
		SELECT coalesce(pg_xact_status($1::text::xid8), ''), coalesce((SELECT min(gid) FROM pg_prepared_xacts WHERE transaction = ($1::text::xid8)::xid), '')`,
		pgx.QueryExecModeSimpleProtocol, fmt.Sprint(b.sessionRef.XID)).Scan(&status, &name)
	proof := xactStatus{xid: b.sessionRef.XID, status: status}.statusText()
	switch {
	case err == nil && status == xactCommitted:
		return fmt.Errorf("%w: it is committed (%s), and %s", txn.ErrEndedByApplication, proof, autocommitDetail)
	case err == nil && status == xactAborted:
		return fmt.Errorf("%w: it is rolled back (%s), but %s", txn.ErrEndedByApplication, proof, autocommitDetail)
	case err == nil && name != "":
		return fmt.Errorf("%w: it is prepared under the name %q, and %s; end that one: ROLLBACK PREPARED", txn.ErrEndedByApplication, excerpt.Of(name), autocommitDetail)
	}
	return errors.Join(errEndedByApplication, err)
}

// txReplacedError is the error if the recorded transaction is not the one that is open.
func (b *branch) txReplacedError(ctx context.Context) error {
	return fmt.Errorf("the transaction is not number %d any more: %w", b.sessionRef.XID, b.endedByApplicationError(ctx))
}

// rollbackOpen rolls back the open transaction, in one round trip, and checks whether it is the
// branch's. A transaction that has failed cannot be asked for its number; then the status of the
// recorded one is queried afterwards.
func (b *branch) rollbackOpen(ctx context.Context) error {
	conn := b.conn.Conn().PgConn()
	failed := conn.TxStatus() == statusFailed
	var statements, want string
	switch {
	case failed && b.readOnly:
		statements = "ROLLBACK" // the mark cannot be queried any more
	case failed:
		statements, want = fmt.Sprintf("ROLLBACK; SELECT pg_xact_status('%d')", b.sessionRef.XID), xactAborted
	case b.readOnly:
		statements, want = b.identity()+"; ROLLBACK", b.mark
	default:
		statements, want = b.identity()+"; ROLLBACK", fmt.Sprint(b.sessionRef.XID)
	}
	results, err := conn.Exec(ctx, statements).ReadAll()
	value, undone := answers(results)
	switch {
	case err != nil:
		return fmt.Errorf("postgres %s: %w", b.name, b.unprovenError(fmt.Errorf("rollback: %w", err)))
	case !undone:
		return fmt.Errorf("postgres %s: %w", b.name, b.unprovenError(errors.New("ROLLBACK was not answered by ROLLBACK")))
	case value != want && b.readOnly:
		return fmt.Errorf("postgres %s: %w", b.name, b.setEndedErr(errMarkLost))
	case value != want:
		return fmt.Errorf("postgres %s: %w", b.name, b.endedByApplicationError(ctx))
	case failed && b.connExposed.Load():
		// The recorded transaction was rolled back, now or by the application on the connection.
		return fmt.Errorf("postgres %s: %w", b.name, b.setEndedErr(errUnproven))
	}
	b.phase = phaseEnded
	return nil
}

// answers returns the answer to the query beside a ROLLBACK, "" if there was none, and whether
// the ROLLBACK was answered as one.
func answers(results []*pgconn.Result) (value string, undone bool) {
	for _, r := range results {
		if r.CommandTag.String() == "ROLLBACK" {
			undone = true
		} else {
			value = single(r)
		}
	}
	return value, undone
}

// identity is the query for what identifies the branch's transaction: its number, or its mark if
// it has none.
func (b *branch) identity() string {
	if b.readOnly {
		return "SELECT current_setting('" + sqltext.MarkSetting + "', true)"
	}
	return "SELECT pg_current_xact_id_if_assigned()::text"
}

// single returns the only value of a result, "" if there is none.
func single(r *pgconn.Result) string {
	if len(r.Rows) != 1 || len(r.Rows[0]) != 1 {
		return ""
	}
	return string(r.Rows[0][0])
}
