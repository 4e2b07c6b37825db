package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txmgr/txmgr/txn"
)

// errEndedByHand is what a statement is answered that ended the transaction, or that
// comes after one that did and is not sent.
var errEndedByHand = fmt.Errorf("%w: what the transaction did may be committed", txn.ErrEndedByHand)

// endedByHand reports whether the application's own statements have ended the
// transaction: the connection is idle although nobody here has ended it. That is
// remembered, since another transaction may begin on the connection.
func (b *branch) endedByHand() bool {
	if b.end == endOpen && b.conn.Conn().PgConn().TxStatus() == statusIdle {
		b.byHand.Store(true)
	}
	return b.byHand.Load()
}

// errUnproved is said of a branch whose transaction cannot be told from another any
// more: on the connection itself the holder may have ended it, committed other work,
// and begun another one.
var errUnproved = fmt.Errorf("%w: its connection was given out (Conn), the transaction there failed or the connection was lost, and whether it was still the branch's cannot be proved: what was sent on Conn may be committed", txn.ErrEndedByHand)

// errMarkGone is said of a branch that was to read only and has lost its mark.
var errMarkGone = fmt.Errorf("%w: the branch was to read only, and its mark, the setting %s, is not there: either the transaction was ended, and %s, or its settings were reset", txn.ErrEndedByHand, markSetting, committedAtOnce)

// unproved is the error of a branch that failed before it was known which transaction
// is open, which only matters where others have the connection.
func (b *branch) unproved(err error) error {
	if !b.lent.Load() {
		return err
	}
	return fmt.Errorf("%w (%w)", b.tell(errUnproved), err)
}

// tell answers the same from now on.
func (b *branch) tell(how error) error {
	b.byHand.Store(true)
	if b.told == nil {
		b.told = how
	}
	return b.told
}

// tellByHand asks the server how the transaction ended that the application has
// ended. It asks once.
func (b *branch) tellByHand(ctx context.Context) error {
	if b.told == nil {
		return b.tell(b.howByHand(ctx))
	}
	return b.told
}

const committedAtOnce = "each statement after that was committed at once, outside of the global transaction"

func (b *branch) howByHand(ctx context.Context) error {
	if b.readOnly {
		return fmt.Errorf("%w: the branch was to read only, and %s", txn.ErrEndedByHand, committedAtOnce)
	}
	var status, name string
	err := b.conn.QueryRow(ctx, `
		SELECT coalesce(pg_xact_status($1::text::xid8), ''), coalesce((SELECT min(gid) FROM pg_prepared_xacts WHERE transaction = ($1::text::xid8)::xid), '')`,
		pgx.QueryExecModeSimpleProtocol, fmt.Sprint(b.session.XID)).Scan(&status, &name)
	proof := evidence{xid: b.session.XID, status: status}.proof()
	switch {
	case err == nil && status == xactCommitted:
		return fmt.Errorf("%w: it is committed (%s), and %s", txn.ErrEndedByHand, proof, committedAtOnce)
	case err == nil && status == xactAborted:
		return fmt.Errorf("%w: it is rolled back (%s), but %s", txn.ErrEndedByHand, proof, committedAtOnce)
	case err == nil && name != "":
		return fmt.Errorf("%w: it is prepared under the name %q, and %s; end that one: ROLLBACK PREPARED", txn.ErrEndedByHand, clip(name), committedAtOnce)
	}
	return errors.Join(errEndedByHand, err)
}

// replaced says that the transaction on record is not the one that is open.
func (b *branch) replaced(ctx context.Context) error {
	return fmt.Errorf("the transaction is not number %d any more: %w", b.session.XID, b.tellByHand(ctx))
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
		statements, want = fmt.Sprintf("ROLLBACK; SELECT pg_xact_status('%d')", b.session.XID), xactAborted
	case b.readOnly:
		statements, want = b.identity()+"; ROLLBACK", b.mark
	default:
		statements, want = b.identity()+"; ROLLBACK", fmt.Sprint(b.session.XID)
	}
	results, err := conn.Exec(ctx, statements).ReadAll()
	told, undone := answers(results)
	switch {
	case err != nil:
		return fmt.Errorf("postgres %s: %w", b.name, b.unproved(fmt.Errorf("rollback: %w", err)))
	case !undone:
		return fmt.Errorf("postgres %s: %w", b.name, b.unproved(errors.New("ROLLBACK was not answered by ROLLBACK")))
	case told != want && b.readOnly:
		return fmt.Errorf("postgres %s: %w", b.name, b.tell(errMarkGone))
	case told != want:
		return fmt.Errorf("postgres %s: %w", b.name, b.tellByHand(ctx))
	case failed && b.lent.Load():
		// The one on record was rolled back, now or by the holder of the connection.
		return fmt.Errorf("postgres %s: %w", b.name, b.tell(errUnproved))
	}
	b.end = endNone
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
