package postgres

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txmgr/txmgr/participant/postgres/internal/connect"
	"github.com/txmgr/txmgr/participant/postgres/internal/markertable"
	"github.com/txmgr/txmgr/participant/postgres/internal/sqlstate"
	"github.com/txmgr/txmgr/participant/postgres/internal/sqltext"
	"github.com/txmgr/txmgr/txn"
)

// begin takes a connection for a branch, begins its transaction and enlists it, before its first
// work. xid is the name that the branch is going to have; empty: it is known when the branch is
// enlisted. The marker row is written before begin returns.
func (db *DB) begin(ctx context.Context, xid string, timeout time.Duration, enlist txn.EnlistFunc) (_ *branch, err error) {
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("postgres %s: take a connection: %w", db.name, connect.Redact(err))
	}
	b := &branch{name: db.name, conn: conn, xid: xid, readOnly: db.TxOptions.AccessMode == pgx.ReadOnly}
	defer func() {
		if err != nil {
			b.Release() // the branch has no work yet
		}
	}()
	var table markertable.Table
	if !b.readOnly {
		if table, b.sessionRef.Table, err = db.markers(ctx, conn.Conn()); err != nil {
			return nil, fmt.Errorf("postgres %s: %w", db.name, err)
		}
	}
	if err := b.start(ctx, db.TxOptions, timeout, table); err != nil {
		return nil, fmt.Errorf("postgres %s: begin: %w", db.name, db.markerError(table, err))
	}
	sessionRef := ""
	if !b.readOnly {
		sessionRef = b.sessionRef.String()
	}
	enlisted, err := enlist(ctx, sessionRef, nil)
	switch {
	case err != nil:
		return nil, err
	case b.marked && enlisted.XID != xid:
		return nil, fmt.Errorf("postgres %s: begin: %w: the branch was to be %s, and is %s; retry", db.name, txn.ErrConflict, xid, enlisted.XID)
	}
	b.xid = enlisted.XID
	if b.sessionRef.hasMarker() && !b.marked {
		if err := b.writeMarker(ctx, table); err != nil {
			return nil, fmt.Errorf("postgres %s: begin: %w", db.name, db.markerError(table, err))
		}
	}
	return b, nil
}

// start begins the branch's transaction and identifies it: in one round trip, once the backend is
// known and the statements are prepared. If the branch has a name already, its marker row is
// written in that, too.
func (b *branch) start(ctx context.Context, o pgx.TxOptions, timeout time.Duration, table markertable.Table) (err error) {
	conn := b.conn.Conn()
	commands := []command{{text: beginQuery(o)}, b.firstCommand(timeout, table)}
	if table != "" && b.xid != "" && o.BeginQuery == "" { // which may be several statements
		if b.prepared, err = prepare(ctx, conn, commands[0].text, commands[1].text, checkNumber, commit); err != nil {
			return err
		}
	}
	results, err := exec(ctx, conn.PgConn(), b.prepared, commands...)
	if b.prepared != nil && sqlstate.NotPrepared(err) {
		b.prepared = forgetPrepared(conn)
		if results, err = nil, b.rollbackStart(ctx); err == nil {
			results, err = exec(ctx, conn.PgConn(), nil, commands...)
		}
	}
	if err == nil && !b.readOnly {
		err = b.identify(ctx, results)
	}
	if err != nil {
		return err
	}
	b.tx = &managedTx{inner: openTx(ctx, conn), branch: b, topLevel: true}
	return nil
}

// rollbackStart ends the transaction of a start that has failed.
func (b *branch) rollbackStart(ctx context.Context) error {
	conn := b.conn.Conn().PgConn()
	if conn.TxStatus() == statusIdle {
		return nil
	}
	return conn.Exec(ctx, "ROLLBACK").Close()
}

// firstCommand is the statement after BEGIN: it makes the settings of the transaction, and identifies it
// unless the branch only reads. That one must not take a snapshot here.
func (b *branch) firstCommand(timeout time.Duration, table markertable.Table) command {
	if b.readOnly {
		b.mark = rand.Text()
		text := "SET LOCAL " + sqltext.MarkSetting + " = '" + b.mark + "'"
		for _, s := range keepalives(timeout) {
			text += "; SET LOCAL " + s.name + " = " + s.value
		}
		return command{text: text}
	}
	var args []string
	values := identity
	for _, s := range keepalives(timeout) {
		args = append(args, s.value)
		values += ", set_config('" + s.name + "', $" + strconv.Itoa(len(args)) + ", true)"
	}
	if table == "" || b.xid == "" {
		return command{"SELECT 0, " + values, args}
	}
	args = append(args, b.xid)
	return command{table.Insert("$"+strconv.Itoa(len(args)), ", "+values), args}
}

// writeMarker writes the marker row of a branch whose name was not known when it began.
func (b *branch) writeMarker(ctx context.Context, table markertable.Table) error {
	var relation uint32
	if err := b.conn.QueryRow(ctx, table.Insert("$1", ""), pgx.QueryExecModeExec, b.xid).Scan(&relation); err != nil {
		return err
	}
	if b.marked = true; relation != b.sessionRef.Table.Relation {
		return errTableReplaced
	}
	return nil
}

// openTx returns the [pgx.Tx] of a transaction that is open already. pgx makes one only for a
// statement that it sends itself; a batch from which that statement is removed sends nothing.
func openTx(ctx context.Context, conn *pgx.Conn) pgx.Tx {
	var nothing pgx.Batch
	nothing.BeginTx(pgx.TxOptions{})
	nothing.QueuedQueries = nil
	return conn.SendBatch(ctx, &nothing).Tx()
}

// beginQuery is the statement that begins a transaction with the options.
func beginQuery(o pgx.TxOptions) string {
	if o.BeginQuery != "" {
		return o.BeginQuery
	}
	query := "BEGIN"
	if o.IsoLevel != "" {
		query += " ISOLATION LEVEL " + string(o.IsoLevel)
	}
	for _, mode := range []string{string(o.AccessMode), string(o.DeferrableMode)} {
		if mode != "" {
			query += " " + mode
		}
	}
	return query
}

// maxKeepalive bounds how long the server waits for a client that has vanished, where the timeout
// of the transaction is longer.
const maxKeepalive = time.Minute

// keepalives makes the server end the session within the transaction's timeout, or a minute, when
// the client's host has vanished. Until the coordinator has the enlistment, which is on its way
// while the session takes its first locks, it cannot end the session at the deadline.
//
// Not idle_in_transaction_session_timeout: the session of a transaction that is extended may be
// idle for longer than the first timeout, and could not be given more while a statement runs.
func keepalives(timeout time.Duration) [3]setting {
	const probes = 3
	half := int(min(timeout, maxKeepalive)/time.Second) / 2
	return [3]setting{
		{"tcp_keepalives_idle", strconv.Itoa(max(half, 1))},
		{"tcp_keepalives_interval", strconv.Itoa(max(half/probes, 1))},
		{"tcp_keepalives_count", strconv.Itoa(probes)},
	}
}

// setting is a setting of the server.
type setting struct{ name, value string }
