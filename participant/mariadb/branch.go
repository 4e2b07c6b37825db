package mariadb

import (
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/txmgr/txmgr/txn"
)

// branch is the application's side of one branch. It implements [txn.SessionRef] and
// [txn.OnePhaseCommitter].
//
// It keeps its connection until Release: no other may commit at once what this
// one has prepared.
type branch struct {
	db               *DB
	conn             *sql.Conn
	sessionRef       SessionRef
	xid              string
	name             string // as a literal
	savepoint        string // a savepoint of a name that only this branch knows: it is there as long as the transaction is this one
	markers          markerTable
	readOnly         bool
	workEnded        atomic.Bool // no more work
	serverRolledBack atomic.Bool // of a transaction that only reads: the server has rolled it back
	mayHaveEnded     atomic.Bool // a statement was sent that may have ended it, see [mayEnd] and [mayRunXA]; set before it is sent
	managed          *sql.DB     // of what [DB.Conn] gives; nil until asked for
	exposedConn      *sql.Conn
	phase            branchPhase

	connMu   sync.Mutex // held while the driver's connection is used past conn; guards the two below
	released bool       // the connection may be another transaction's
	prepared map[*managedStmt]bool

	lifetime    context.Context // ends with Release, and with it the rows that are still open
	endLifetime context.CancelFunc
}

func newBranch(db *DB, conn *sql.Conn, markers markerTable) *branch {
	b := &branch{db: db, conn: conn, markers: markers, savepoint: "txmgr_" + rand.Text(), readOnly: db.TxOptions.ReadOnly}
	b.lifetime, b.endLifetime = context.WithCancel(context.Background())
	return b
}

// boundContext gives a context for a query whose rows may outlive the call.
func (b *branch) boundContext(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	context.AfterFunc(b.lifetime, cancel)
	return ctx
}

// branchPhase is how far a branch is.
type branchPhase uint8

const (
	phaseUnknown  branchPhase = iota // only the coordinator can find out
	phaseOpen                        // at work
	phasePrepared                    // voted yes
	phaseEnded                       // there is nothing left of it: the connection is as it was
)

// isolations are the levels as MariaDB names them.
var isolations = map[sql.IsolationLevel]string{
	sql.LevelReadUncommitted: "READ UNCOMMITTED",
	sql.LevelReadCommitted:   "READ COMMITTED",
	sql.LevelRepeatableRead:  "REPEATABLE READ",
	sql.LevelSerializable:    "SERIALIZABLE",
}

// errProxy says that a session is not always the same one.
var errProxy = errors.New("the connection is not the one that was enlisted: something between application and server shares out connections; connect to the server itself")

// start starts the branch's transaction. It is one round trip: the statements are
// sent as a block, which MariaDB runs up to the first error.
func (b *branch) start(ctx context.Context, xid string, level sql.IsolationLevel) error {
	n, err := nameOf(xid)
	if err != nil {
		return err
	}
	b.xid, b.name = xid, n.literal()
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
	if b.readOnly || b.markers == "" {
		_, err = b.conn.ExecContext(ctx, block+"END")
	} else {
		err = b.startWithMarker(ctx, block+b.markers.insert(xid)+"; END")
	}
	if err != nil {
		return b.startError(err)
	}
	b.phase = phaseOpen
	return nil
}

// startWithMarker also looks whether the row of proof went where the coordinator was
// told that it does.
func (b *branch) startWithMarker(ctx context.Context, block string) error {
	got := SessionRef{Start: b.sessionRef.Start}
	if err := b.conn.QueryRowContext(ctx, block).Scan(&got.Conn, &got.Table); err != nil {
		return err
	}
	switch {
	case got.Conn != b.sessionRef.Conn:
		return errProxy
	case got.Table != b.sessionRef.Table:
		return fmt.Errorf("the table of proof, %s, has been made anew; try again", b.markers)
	}
	return nil
}

// startError explains why there is no transaction. The connection is discarded.
func (b *branch) startError(err error) error {
	b.db.forget()
	switch numberOf(err) {
	case codeDuplicate:
		return fmt.Errorf("%w: the coordinator has rolled the branch back already: %w", txn.ErrNotActive, err)
	case codeRMFail, codeOutside:
		return fmt.Errorf("the pool has given out a connection that somebody left with an open transaction; it has been closed: %w", err)
	}
	return err
}

// errBranchEnded is the answer to work after the end.
var errBranchEnded = fmt.Errorf("%w: %w", txn.ErrNotActive, sql.ErrTxDone)

// checkOpen reports whether work may be done. A transaction that only reads is not
// refused by the server after it was rolled back: statements would be autocommitted.
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
	if err := rejectTxControl(query); err != nil {
		return err
	}
	if mayEnd(query) && (b.readOnly || mayRunXA(query)) {
		b.mayHaveEnded.Store(true)
	}
	return nil
}

// raw calls f with the driver's connection, alone: neither that nor its statements
// and rows are safe for concurrent use. It goes past [sql.Conn], which would wait for
// rows that the application has forgotten to close, for ever. After Release it does
// not call f.
func (b *branch) raw(f func(c any) error) (err error) {
	b.connMu.Lock()
	defer b.connMu.Unlock()
	if b.released {
		return errBranchEnded
	}
	raw := b.conn.Raw(func(c any) error {
		err = f(c)
		return nil // or the connection would be closed, with the same wait
	})
	if raw != nil {
		return raw
	}
	return err
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
	if b.readOnly { // what fails after the first rows has to be looked at, which these rows do
		conn, err := b.exposeConn(ctx)
		if err != nil {
			return nil, err
		}
		return conn.QueryContext(ctx, query, args...)
	}
	rows, err := b.conn.QueryContext(b.boundContext(ctx), query, args...)
	return rows, b.checkError(ctx, err)
}

func (b *branch) queryRow(ctx context.Context, query string, args ...any) Row {
	if err := b.check(query); err != nil {
		return row{err: err}
	}
	return row{inner: b.conn.QueryRowContext(b.boundContext(ctx), query, args...), branch: b, ctx: ctx}
}

// row is a row, or why there is none.
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

// Release implements [txn.SessionRef]. A connection that still has something of the
// branch never goes back to the pool: the next one there would find it in the
// middle of a transaction, and the coordinator would wait for it to end.
func (b *branch) Release() {
	b.workEnded.Store(true)
	defer b.endLifetime()
	if b.managed != nil {
		_ = b.managed.Close() // it holds nothing
	}
	b.detachConn()
	if b.phase == phaseEnded {
		_ = b.conn.Close() // it is back in the pool
		return
	}
	// The pool is told when rows are closed that the application has forgotten.
	go func() { _ = b.conn.Close() }()
}

// detachConn lets nothing of the branch reach its connection any more, which is closed
// unless the pool may have it.
func (b *branch) detachConn() {
	_ = b.raw(func(c any) error {
		conn, ok := c.(driver.Conn)
		switch {
		case b.phase == phaseEnded:
			for s := range b.prepared {
				_ = s.inner.Close() // the server keeps it as long as the connection lives
			}
		case ok:
			_ = conn.Close() // what is on its way may arrive
		}
		return nil
	})
	b.connMu.Lock()
	defer b.connMu.Unlock()
	b.released = true
}
