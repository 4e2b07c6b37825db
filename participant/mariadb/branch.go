package mariadb

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/txmgr/txmgr/participant/mariadb/internal/errno"
	"github.com/txmgr/txmgr/participant/mariadb/internal/markertable"
	"github.com/txmgr/txmgr/participant/mariadb/internal/sqltext"
	"github.com/txmgr/txmgr/participant/mariadb/internal/xa"
	"github.com/txmgr/txmgr/txn"
)

// branch is the application's side of one branch. It implements [txn.Resource] and
// [txn.OnePhaseCommitter].
//
// It keeps its connection until Release: only the connection that prepared can commit at once.
type branch struct {
	db               *DB
	conn             *branchConn
	sessionRef       SessionRef
	xid              string
	name             string // as a literal
	savepoint        string // its random name is unique to this branch: it exists as long as the transaction is the branch's
	markers          markertable.Table
	readOnly         bool
	workEnded        atomic.Bool // no further statements are accepted
	serverRolledBack atomic.Bool // the server has rolled back the transaction, which is read-only
	mayHaveEnded     atomic.Bool // a statement was sent that may have ended it, see [sqltext.MayEnd]; set before it is sent
	managed          *sql.DB     // the pool of [DB.Conn]; nil until it is used
	exposedConn      *sql.Conn
	phase            branchPhase
}

func newBranch(db *DB, conn *sql.Conn, markers markertable.Table) *branch {
	return &branch{db: db, conn: newBranchConn(conn), markers: markers, savepoint: "txmgr_" + rand.Text(), readOnly: db.TxOptions.ReadOnly}
}

// branchPhase is the state of a branch.
type branchPhase uint8

const (
	phaseUnknown  branchPhase = iota // only the coordinator can determine it
	phaseOpen                        // accepts work
	phasePrepared                    // voted yes
	phaseEnded                       // committed or rolled back: the connection is clean
)

// isolations are MariaDB's names of the isolation levels.
var isolations = map[sql.IsolationLevel]string{
	sql.LevelReadUncommitted: "READ UNCOMMITTED",
	sql.LevelReadCommitted:   "READ COMMITTED",
	sql.LevelRepeatableRead:  "REPEATABLE READ",
	sql.LevelSerializable:    "SERIALIZABLE",
}

// errProxy means that two statements of one connection reached different server connections.
var errProxy = errors.New("the connection is not the one that was enlisted: a proxy between application and server shares connections; connect to the server directly")

// start starts the branch's transaction in one round trip: the statements are sent as a block,
// which MariaDB runs up to the first error.
func (b *branch) start(ctx context.Context, xid string, level sql.IsolationLevel) error {
	n, err := xa.ParseName(xid)
	if err != nil {
		return err
	}
	b.xid, b.name = xid, n.Literal()
	block := "BEGIN NOT ATOMIC "
	if level != sql.LevelDefault {
		name, known := isolations[level]
		if !known {
			return fmt.Errorf("%w: isolation level %v", txn.ErrInvalid, level)
		}
		block += "SET TRANSACTION ISOLATION LEVEL " + name + "; "
	}
	if b.readOnly {
		block += "START TRANSACTION READ ONLY; "
	} else {
		block += "XA START " + b.name + "; "
	}
	block += "SAVEPOINT " + b.savepoint + "; "
	if !b.readOnly && b.markers != "" {
		block += b.markers.Insert(xid, b.sessionRef.Conn, b.sessionRef.Table) + "; "
	}
	if _, err := b.conn.ExecContext(ctx, block+"END"); err != nil {
		return b.startError(ctx, err)
	}
	b.phase = phaseOpen
	return nil
}

// startError explains why the transaction did not start. The connection is discarded.
func (b *branch) startError(ctx context.Context, err error) error {
	b.db.forget()
	switch errno.Of(err) {
	case errno.Null:
		return b.notRecordedError(ctx, err)
	case errno.Duplicate:
		return fmt.Errorf("%w: the coordinator has rolled the branch back already: %w", txn.ErrNotActive, err)
	case errno.RMFail, errno.Outside:
		return fmt.Errorf("the pool has returned a connection with an open transaction; it has been closed: %w", err)
	}
	return err
}

// notRecordedError explains why the marker row was refused: the connection or the table is not the
// one that is recorded.
func (b *branch) notRecordedError(ctx context.Context, refusal error) error {
	var conn uint64
	var origin sql.NullString
	err := b.conn.QueryRowContext(ctx, "SELECT CONNECTION_ID(), "+b.markers.OriginQuery()).Scan(&conn, &origin)
	switch {
	case err != nil:
		return fmt.Errorf("the connection or the marker table is not the one that was enlisted: %w; and then: %w", refusal, err)
	case conn == b.sessionRef.Conn && origin.String != b.sessionRef.Table:
		return fmt.Errorf("the marker table %s was created again; retry", b.markers)
	}
	return errProxy // also if the query has reached the right connection
}

// errBranchEnded is the error of statements after the end.
var errBranchEnded = fmt.Errorf("%w: %w", txn.ErrNotActive, sql.ErrTxDone)

// checkOpen reports whether statements are accepted. After the server has rolled back a
// read-only transaction it does not refuse statements: they would be autocommitted.
func (b *branch) checkOpen() error {
	switch {
	case b.workEnded.Load():
		return errBranchEnded
	case b.serverRolledBack.Load():
		return errRolledBackByServer
	}
	return nil
}

// check reports whether a statement may be sent.
func (b *branch) check(query string) error {
	if err := b.checkOpen(); err != nil {
		return err
	}
	if err := sqltext.RejectTxControl(query); err != nil {
		return err
	}
	if sqltext.MayEnd(query) && (b.readOnly || sqltext.MayRunXA(query)) {
		b.mayHaveEnded.Store(true)
	}
	return nil
}

func (b *branch) exec(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if err := b.check(query); err != nil {
		return nil, err
	}
	res, err := b.conn.ExecContext(ctx, query, args...)
	return res, b.checkError(ctx, err)
}

func (b *branch) query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if err := b.check(query); err != nil {
		return nil, err
	}
	if b.readOnly { // what fails after the first rows has to be checked, as managed rows do
		conn, err := b.exposeConn(ctx)
		if err != nil {
			return nil, err
		}
		return conn.QueryContext(ctx, query, args...)
	}
	rows, err := b.conn.QueryContext(b.conn.boundContext(ctx), query, args...)
	return rows, b.checkError(ctx, err)
}

func (b *branch) queryRow(ctx context.Context, query string, args ...any) Row {
	if err := b.check(query); err != nil {
		return row{err: err}
	}
	return row{inner: b.conn.QueryRowContext(b.conn.boundContext(ctx), query, args...), branch: b, ctx: ctx}
}

// row is a row, or the error instead of one.
type row struct {
	inner  *sql.Row
	branch *branch
	ctx    context.Context // of the query
	err    error
}

// Scan implements [Row].
func (r row) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	return r.branch.checkError(r.ctx, r.inner.Scan(dest...))
}

// Release implements [txn.Resource]. A connection that still has something of the branch never
// returns to the pool: its next user would find it within a transaction, and the coordinator
// would wait for it to end.
func (b *branch) Release() {
	b.workEnded.Store(true)
	if b.managed != nil {
		_ = b.managed.Close() // it holds nothing
	}
	b.conn.release(b.phase == phaseEnded)
}
