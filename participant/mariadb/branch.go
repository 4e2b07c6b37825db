package mariadb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/txmgr/txmgr/txn"
)

// branch is the application's side of one branch. It implements [txn.Session] and
// [txn.OnePhaser].
//
// It keeps its connection until Release: no other may commit at once what this
// one has prepared.
type branch struct {
	db       *DB
	conn     *sql.Conn
	session  Session
	xid      string
	name     string // as a literal
	proof    table
	readOnly bool
	over     atomic.Bool // no more work
	end      branchEnd

	life context.Context // ends with Release, and with it the rows that are still open
	kill context.CancelFunc
}

func newBranch(db *DB, conn *sql.Conn, proof table) *branch {
	b := &branch{db: db, conn: conn, proof: proof, readOnly: db.TxOptions.ReadOnly}
	b.life, b.kill = context.WithCancel(context.Background())
	return b
}

// bounded gives a context for a query whose rows may outlive the call.
func (b *branch) bounded(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	context.AfterFunc(b.life, cancel)
	return ctx
}

// branchEnd is how far a branch is.
type branchEnd uint8

const (
	endUnknown  branchEnd = iota // only the coordinator can find out
	endOpen                      // at work
	endPrepared                  // voted yes
	endNone                      // there is nothing left of it: the connection is as it was
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
	switch {
	case b.readOnly:
		// The savepoint is there as long as the transaction is this one.
		_, err = b.conn.ExecContext(ctx, block+"START TRANSACTION READ ONLY; SAVEPOINT "+savepoint+"; END")
	case b.proof == "":
		_, err = b.conn.ExecContext(ctx, block+"XA START "+b.name+"; END")
	default:
		err = b.startProved(ctx, block+"XA START "+b.name+"; "+b.proof.insert(xid)+"; END")
	}
	if err != nil {
		return b.notStarted(err)
	}
	b.end = endOpen
	return nil
}

const savepoint = "txmgr_branch"

// startProved also looks whether the row of proof went where the coordinator was
// told that it does.
func (b *branch) startProved(ctx context.Context, block string) error {
	got := Session{Start: b.session.Start}
	if err := b.conn.QueryRowContext(ctx, block).Scan(&got.Conn, &got.Table); err != nil {
		return err
	}
	switch {
	case got.Conn != b.session.Conn:
		return errProxy
	case got.Table != b.session.Table:
		return fmt.Errorf("the table of proof, %s, has been made anew; try again", b.proof)
	}
	return nil
}

// notStarted explains why there is no transaction. The connection is discarded.
func (b *branch) notStarted(err error) error {
	b.db.forget()
	switch numberOf(err) {
	case codeDuplicate:
		return fmt.Errorf("%w: the coordinator has rolled the branch back already: %w", txn.ErrNotActive, err)
	case codeRMFail, codeOutside:
		return fmt.Errorf("the pool has given out a connection that somebody left with an open transaction; it has been closed: %w", err)
	}
	return err
}

// check reports whether work may still be done.
func (b *branch) check() error {
	if b.over.Load() {
		return fmt.Errorf("%w: %w", txn.ErrNotActive, sql.ErrTxDone)
	}
	return nil
}

// managed names what the server refuses because the transaction is not the
// statement's to end.
func managed(err error) error {
	switch {
	case numberOf(err) != codeRMFail:
		return err
	case strings.Contains(err.Error(), "ROLLBACK ONLY"):
		return fmt.Errorf("the server has rolled the transaction back, after a deadlock or a timeout: %w", err)
	}
	return fmt.Errorf("%w: end the global one: %w", txn.ErrManaged, err)
}

func (b *branch) exec(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	res, err := b.conn.ExecContext(ctx, query, args...)
	return res, managed(err)
}

func (b *branch) query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	rows, err := b.conn.QueryContext(b.bounded(ctx), query, args...)
	return rows, managed(err)
}

func (b *branch) queryRow(ctx context.Context, query string, args ...any) Row {
	if err := b.check(); err != nil {
		return row{err: err}
	}
	return row{inner: b.conn.QueryRowContext(b.bounded(ctx), query, args...)}
}

// row is a row, or why there is none.
type row struct {
	inner *sql.Row
	err   error
}

// Scan implements [Row].
func (r row) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	return managed(r.inner.Scan(dest...))
}

// Release implements [txn.Session]. A connection that still has something of the
// branch never goes back to the pool: the next one there would find it in the
// middle of a transaction, and the coordinator would wait for it to end.
func (b *branch) Release() {
	b.over.Store(true)
	defer b.kill()
	if b.end == endNone {
		_ = b.conn.Close() // it is back in the pool
		return
	}
	_ = b.conn.Raw(func(c any) error {
		if conn, ok := c.(driver.Conn); ok {
			_ = conn.Close() // what is on its way may arrive
		}
		return nil
	})
	// The pool is told when rows are closed that the application has forgotten.
	go func() { _ = b.conn.Close() }()
}
