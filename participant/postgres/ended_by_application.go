package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txmgr/txmgr/txn"
)

// errEndedByApplication is what a statement is answered that ended the transaction, or that
// comes after one that did and is not sent.
var errEndedByApplication = fmt.Errorf("%w: what the transaction did may be committed", txn.ErrEndedByApplication)

// endedByApplication reports whether the application's own statements have ended the
// transaction: the connection is idle although nobody here has ended it. That is
// remembered, since another transaction may begin on the connection.
func (b *branch) endedByApplication() bool {
	if b.phase == phaseOpen && b.conn.Conn().PgConn().TxStatus() == statusIdle {
		b.appEnded.Store(true)
	}
	return b.appEnded.Load()
}

// errUnproven is said of a branch whose transaction cannot be told from another any
// more: on the connection itself the holder may have ended it, committed other work,
// and begun another one.
var errUnproven = fmt.Errorf("%w: its connection was given out (Conn), the transaction there failed or the connection was lost, and whether it was still the branch's cannot be proved: what was sent on Conn may be committed", txn.ErrEndedByApplication)

// errMarkLost is said of a branch that was to read only and has lost its mark.
var errMarkLost = fmt.Errorf("%w: the branch was to read only, and its mark, the setting %s, is not there: either the transaction was ended, and %s, or its settings were reset", txn.ErrEndedByApplication, markSetting, autocommitDetail)

// unprovenError is the error of a branch that failed before it was known which transaction
// is open, which only matters where others have the connection.
func (b *branch) unprovenError(err error) error {
	if !b.connExposed.Load() {
		return err
	}
	return fmt.Errorf("%w (%w)", b.setEndedErr(errUnproven), err)
}

// setEndedErr answers the same from now on.
func (b *branch) setEndedErr(how error) error {
	b.appEnded.Store(true)
	if b.endedErr == nil {
		b.endedErr = how
	}
	return b.endedErr
}

// endedByApplicationError asks the server how the transaction ended that the application has
// ended. It asks once.
func (b *branch) endedByApplicationError(ctx context.Context) error {
	if b.endedErr == nil {
		return b.setEndedErr(b.queryEnded(ctx))
	}
	return b.endedErr
}

const autocommitDetail = "each statement after that was committed at once, outside of the global transaction"

func (b *branch) queryEnded(ctx context.Context) error {
	if b.readOnly {
		return fmt.Errorf("%w: the branch was to read only, and %s", txn.ErrEndedByApplication, autocommitDetail)
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
		return fmt.Errorf("%w: it is prepared under the name %q, and %s; end that one: ROLLBACK PREPARED", txn.ErrEndedByApplication, clip(name), autocommitDetail)
	}
	return errors.Join(errEndedByApplication, err)
}

// txReplacedError says that the transaction on record is not the one that is open.
func (b *branch) txReplacedError(ctx context.Context) error {
	return fmt.Errorf("the transaction is not number %d any more: %w", b.sessionRef.XID, b.endedByApplicationError(ctx))
}

// rollbackOpen rolls back what is open, in one round trip, and looks whether that
// is the branch's transaction. A transaction that has failed does not tell its
// number; then the server says afterwards how the one on record has ended.
func (b *branch) rollbackOpen(ctx context.Context) error {
	conn := b.conn.Conn().PgConn()
	failed := conn.TxStatus() == statusFailed
	var statements, want string
	switch {
	case failed && b.readOnly:
		statements = "ROLLBACK" // its mark cannot be asked for any more
	case failed:
		statements, want = fmt.Sprintf("ROLLBACK; SELECT pg_xact_status('%d')", b.sessionRef.XID), xactAborted
	case b.readOnly:
		statements, want = b.identity()+"; ROLLBACK", b.mark
	default:
		statements, want = b.identity()+"; ROLLBACK", fmt.Sprint(b.sessionRef.XID)
	}
	results, err := conn.Exec(ctx, statements).ReadAll()
	told, undone := answers(results)
	switch {
	case err != nil:
		return fmt.Errorf("postgres %s: %w", b.name, b.unprovenError(fmt.Errorf("rollback: %w", err)))
	case !undone:
		return fmt.Errorf("postgres %s: %w", b.name, b.unprovenError(errors.New("ROLLBACK was not answered by ROLLBACK")))
	case told != want && b.readOnly:
		return fmt.Errorf("postgres %s: %w", b.name, b.setEndedErr(errMarkLost))
	case told != want:
		return fmt.Errorf("postgres %s: %w", b.name, b.endedByApplicationError(ctx))
	case failed && b.connExposed.Load():
		// The one on record was rolled back, now or by the holder of the connection.
		return fmt.Errorf("postgres %s: %w", b.name, b.setEndedErr(errUnproven))
	}
	b.phase = phaseEnded
	return nil
}

// answers gives what was answered to the query beside a ROLLBACK, "" when there was none,
// and whether the ROLLBACK was answered as one.
func answers(results []*pgconn.Result) (told string, undone bool) {
	for _, r := range results {
		if r.CommandTag.String() == "ROLLBACK" {
			undone = true
		} else {
			told = single(r)
		}
	}
	return told, undone
}

// identity is the query for what tells the branch's transaction from every other:
// its number, or the mark of one that has none.
func (b *branch) identity() string {
	if b.readOnly {
		return "SELECT current_setting('" + markSetting + "', true)"
	}
	return "SELECT pg_current_xact_id_if_assigned()::text"
}

// markSetting is a setting that ends with the transaction in which it was made.
const markSetting = "txmgr.branch"

// single gives the only value of a result, "" when there is none.
func single(r *pgconn.Result) string {
	if len(r.Rows) != 1 || len(r.Rows[0]) != 1 {
		return ""
	}
	return string(r.Rows[0][0])
}
