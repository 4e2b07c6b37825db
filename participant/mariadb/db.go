package mariadb

import (
	"context"
	"database/sql"
	"fmt"
	"sync"

	"github.com/txmgr/txmgr/txn"
)

// DB is the application's side of one database. A transaction's first use of it
// takes a connection of the pool, enlists it and starts an XA transaction there;
// later uses get the same, until the global transaction has ended.
//
// A DB is safe for concurrent use; what it does for one transaction is not, as
// with [sql.Conn].
type DB struct {
	// TxOptions say how transactions begin: isolation, and with ReadOnly that
	// nothing is changed, which saves the prepare. Not to be changed after the
	// first use. Defaults to what the server does.
	TxOptions sql.TxOptions
	// MarkerTable is the name of the table of proof, the same as in the registration;
	// off: none is kept. Not to be changed after the first use. Defaults to
	// [DefaultMarkerTable].
	MarkerTable string

	name string
	pool *sql.DB

	mu          sync.Mutex // guards all below
	origin      string     // what the table of proof calls itself; empty: not asked yet
	sessionRefs map[any]SessionRef
}

// New gives the database that the pool connects to, by go-sql-driver/mysql. name
// is the participant's name at the coordinator. The pool remains the caller's.
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

// Query runs a query in the transaction. The rows have to be closed before the
// next statement.
func (db *DB) Query(ctx context.Context, tx *txn.Tx, query string, args ...any) (*sql.Rows, error) {
	b, err := db.branch(ctx, tx)
	if err != nil {
		return nil, err
	}
	rows, err := b.query(ctx, query, args...)
	return rows, db.wrapErr(err)
}

// Row is the result of a query of which only the first row matters, as
// [sql.Row].
type Row interface {
	Scan(dest ...any) error
}

// QueryRow runs a query of which only the first row matters. Errors come with
// Scan.
func (db *DB) QueryRow(ctx context.Context, tx *txn.Tx, query string, args ...any) Row {
	b, err := db.branch(ctx, tx)
	if err != nil {
		return row{err: err}
	}
	return namedRow{b.queryRow(ctx, query, args...), db}
}

// Conn gives the transaction's own connection, for libraries that want one. Its
// BeginTx, and statements that would end the transaction, answer [txn.ErrManaged]. To
// close it changes nothing. After the end of the global transaction it and the
// statements prepared on it answer [txn.ErrNotActive].
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

// begin opens the session of a branch and enlists it, before anything is done in
// it.
func (db *DB) begin(ctx context.Context, enlist txn.EnlistFunc) (_ *branch, err error) {
	markers, err := newMarkerTable(db.MarkerTable)
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
			b.Release() // nothing was done in it yet
		}
	}()
	session := ""
	if !b.readOnly {
		if b.sessionRef, err = db.identify(ctx, conn, markers); err != nil {
			return nil, fmt.Errorf("mariadb %s: identify the session: %w", db.name, err)
		}
		session = b.sessionRef.String()
	}
	enlisted, err := enlist(ctx, session, nil)
	if err != nil {
		b.phase = phaseEnded
		return nil, err
	}
	if err := b.start(ctx, enlisted.XID, db.TxOptions.Isolation); err != nil {
		return nil, fmt.Errorf("mariadb %s: begin: %w", db.name, err)
	}
	return b, nil
}

// maxSessions bounds what is remembered of connections, most of which have gone.
const maxSessions = 512

// identify says which session this is. A connection is asked once.
func (db *DB) identify(ctx context.Context, conn *sql.Conn, markers markerTable) (SessionRef, error) {
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
		if origin, err = markers.ensure(ctx, conn); err != nil {
			return SessionRef{}, err
		}
	}
	s = SessionRef{Table: origin}
	if err := conn.QueryRowContext(ctx, "SELECT CONNECTION_ID(), "+startQuery).Scan(&s.Conn, &s.Start); err != nil {
		return SessionRef{}, err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.sessionRefs == nil || len(db.sessionRefs) >= maxSessions {
		db.sessionRefs = map[any]SessionRef{}
	}
	db.sessionRefs[driverConn], db.origin = s, origin
	return s, nil
}

// forget has all that is remembered asked anew: it was found to be wrong.
func (db *DB) forget() {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.sessionRefs, db.origin = nil, ""
}
