package mariadb

import (
	"context"
	"database/sql"
	"fmt"
	"sync"

	"github.com/txmgr/txmgr/participant/mariadb/internal/markertable"
	"github.com/txmgr/txmgr/txn"
)

// DB is the application's side of one database. The first use by a global transaction takes a
// connection of the pool, enlists it and starts an XA transaction there; later uses get the same
// connection, until the global transaction has ended.
//
// A DB is safe for concurrent use by several transactions; for one transaction it is not, as
// with [sql.Conn].
type DB struct {
	// TxOptions are the options of each branch's transaction: its isolation level, and ReadOnly
	// for a database that is only read, which saves the prepare. Not to be changed after the
	// first use. Defaults to the server's defaults.
	TxOptions sql.TxOptions
	// MarkerTable is the name of the marker table, the same as in the registration; off: no
	// marker rows are written. Not to be changed after the first use. Defaults to
	// [DefaultMarkerTable].
	MarkerTable string

	name string
	pool *sql.DB

	mu          sync.Mutex // guards all below
	origin      string     // identifies the marker table; empty: not queried yet
	sessionRefs map[any]SessionRef
}

// New returns the DB for the database that the pool connects to, with go-sql-driver/mysql. name is
// the participant's name at the coordinator. The caller keeps the ownership of the pool.
func New(name string, pool *sql.DB) *DB { return &DB{name: name, pool: pool} }

// Exec runs a statement in the transaction.
func (db *DB) Exec(ctx context.Context, tx *txn.Tx, query string, args ...any) (sql.Result, error) {
	b, err := db.branch(ctx, tx)
	if err != nil {
		return nil, err
	}
	res, err := b.exec(ctx, query, args...)
	return res, db.wrapErr(err)
}

// Query runs a query in the transaction. Close the rows before the next statement.
func (db *DB) Query(ctx context.Context, tx *txn.Tx, query string, args ...any) (*sql.Rows, error) {
	b, err := db.branch(ctx, tx)
	if err != nil {
		return nil, err
	}
	rows, err := b.query(ctx, query, args...)
	return rows, db.wrapErr(err)
}

// Row is the result of a query of which only the first row matters, like [sql.Row].
type Row interface {
	Scan(dest ...any) error
}

// QueryRow runs a query of which only the first row matters. Scan returns the errors.
func (db *DB) QueryRow(ctx context.Context, tx *txn.Tx, query string, args ...any) Row {
	b, err := db.branch(ctx, tx)
	if err != nil {
		return row{err: err}
	}
	return namedRow{b.queryRow(ctx, query, args...), db}
}

// Conn returns the branch's own connection, for libraries that want one. Its BeginTx, and
// statements that would end the transaction, return [txn.ErrManaged]. Closing it has no effect.
// After the end of the global transaction, the connection and the statements prepared on it
// return [txn.ErrNotActive].
func (db *DB) Conn(ctx context.Context, tx *txn.Tx) (*sql.Conn, error) {
	b, err := db.branch(ctx, tx)
	if err != nil {
		return nil, err
	}
	return b.exposeConn(ctx)
}

func (db *DB) branch(ctx context.Context, tx *txn.Tx) (*branch, error) {
	return txn.Join(ctx, tx, db.name, db.begin)
}

// begin takes a connection for a branch, enlists it and starts its XA transaction, before its
// first work.
func (db *DB) begin(ctx context.Context, enlist txn.EnlistFunc) (_ *branch, err error) {
	markers, err := markertable.Parse(db.MarkerTable)
	if err != nil {
		return nil, err
	}
	conn, err := db.pool.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("mariadb %s: take a connection: %w", db.name, err)
	}
	b := newBranch(db, conn, markers)
	defer func() {
		if err != nil {
			b.Release() // the branch has no work yet
		}
	}()
	sessionRef := ""
	if !b.readOnly {
		if b.sessionRef, err = db.identify(ctx, conn, markers); err != nil {
			return nil, fmt.Errorf("mariadb %s: identify the connection: %w", db.name, err)
		}
		sessionRef = b.sessionRef.String()
	}
	enlisted, err := enlist(ctx, sessionRef, nil)
	if err != nil {
		b.phase = phaseEnded
		return nil, err
	}
	if err := b.start(ctx, enlisted.XID, db.TxOptions.Isolation); err != nil {
		return nil, fmt.Errorf("mariadb %s: begin: %w", db.name, err)
	}
	return b, nil
}

// maxSessionRefs bounds the cache of session references: most are of closed connections.
const maxSessionRefs = 512

// identify returns the session reference of a connection, which is queried once.
func (db *DB) identify(ctx context.Context, conn *sql.Conn, markers markertable.Table) (SessionRef, error) {
	var driverConn any
	if err := conn.Raw(func(c any) error { driverConn = c; return nil }); err != nil {
		return SessionRef{}, err
	}
	db.mu.Lock()
	s, known := db.sessionRefs[driverConn]
	origin := db.origin
	db.mu.Unlock()
	if known && (markers == "" || origin != "") {
		s.Table = origin
		return s, nil
	}
	var err error
	if origin == "" && markers != "" {
		if origin, err = markers.Ensure(ctx, conn); err != nil {
			return SessionRef{}, err
		}
	}
	s = SessionRef{Table: origin}
	if err := conn.QueryRowContext(ctx, "SELECT CONNECTION_ID(), "+startQuery).Scan(&s.Conn, &s.Start); err != nil {
		return SessionRef{}, err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.sessionRefs == nil || len(db.sessionRefs) >= maxSessionRefs {
		db.sessionRefs = map[any]SessionRef{}
	}
	db.sessionRefs[driverConn], db.origin = s, origin
	return s, nil
}

// forget clears the cache, because an entry proved wrong: everything is queried again.
func (db *DB) forget() {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.sessionRefs, db.origin = nil, ""
}
