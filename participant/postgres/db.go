package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txmgr/txmgr/participant/postgres/internal/markertable"
	"github.com/txmgr/txmgr/txn"
)

// DB is the application's side of one database. The first use by a global transaction takes a
// connection of the pool, begins a transaction there and enlists it; later uses get the same
// connection, until the global transaction has ended.
//
// A DB is safe for concurrent use by several transactions; for one transaction it is not, as
// with [pgx.Tx].
type DB struct {
	// TxOptions are the options of each branch's transaction: its isolation, and [pgx.ReadOnly]
	// for a database that is only read, which saves the prepare. Not to be changed after the
	// first use. Defaults to the server's defaults.
	TxOptions pgx.TxOptions

	// MarkerTable is the name of the marker table, the same as in the registration. Each branch
	// writes a row there, which proves how the branch ended, and the only branch of a transaction
	// is committed without prepare. If the table does not exist, or the pool's user may not write
	// to it, the branch cannot be begun. off: no rows are written, and every branch prepares. Not
	// to be changed after the first use. Defaults to [DefaultMarkerTable] where that can be used,
	// and to off elsewhere.
	MarkerTable string

	name string
	pool *pgxpool.Pool

	mu      sync.Mutex        // guards all below
	marker  markertable.Found // zero: not found yet
	absence time.Time         // when it was last looked for and not found
}

// New returns the DB for the database that the pool connects to. name is the participant's name
// at the coordinator. The caller keeps the ownership of the pool.
func New(name string, pool *pgxpool.Pool) *DB { return &DB{name: name, pool: pool} }

// Exec runs a statement in the transaction.
func (db *DB) Exec(ctx context.Context, tx *txn.Tx, sql string, args ...any) (pgconn.CommandTag, error) {
	b, err := db.branch(ctx, tx)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	return db.namedTx(b).Exec(ctx, sql, args...)
}

// Query runs a query in the transaction. Close the rows before the next statement.
func (db *DB) Query(ctx context.Context, tx *txn.Tx, sql string, args ...any) (pgx.Rows, error) {
	b, err := db.branch(ctx, tx)
	if err != nil {
		return nil, err
	}
	return db.namedTx(b).Query(ctx, sql, args...)
}

// QueryRow runs a query of which only the first row matters. Scan returns the errors.
func (db *DB) QueryRow(ctx context.Context, tx *txn.Tx, sql string, args ...any) pgx.Row {
	b, err := db.branch(ctx, tx)
	if err != nil {
		return failedRow{err}
	}
	return db.namedTx(b).QueryRow(ctx, sql, args...)
}

// Tx returns the branch's own [pgx.Tx], for libraries that want one. Its Commit and Rollback
// return [txn.ErrManaged], and so does a statement that would end the transaction; those of a
// nested one (Begin) work. Its Conn is not checked: a transaction that is ended there results in
// [txn.ErrEndedByApplication]; so does, once Conn was called, a transaction that has failed or
// whose connection is lost, since it cannot be proved to be the branch's own. Rolling back a
// nested one keeps the proof. The Tx and its Conn must not be used after the end of the global
// transaction.
func (db *DB) Tx(ctx context.Context, tx *txn.Tx) (pgx.Tx, error) {
	b, err := db.branch(ctx, tx)
	if err != nil {
		return nil, err
	}
	return db.namedTx(b), nil
}

func (db *DB) branch(ctx context.Context, tx *txn.Tx) (*branch, error) {
	return txn.Join(ctx, tx, db.name, func(ctx context.Context, enlist txn.EnlistFunc) (*branch, error) {
		xid, _ := tx.BranchName(db.name)
		return db.begin(ctx, xid, tx.Timeout(), enlist)
	})
}

// failedRow is the row of a query that was not sent.
type failedRow struct{ err error }

// Scan implements [pgx.Row].
func (f failedRow) Scan(...any) error { return f.err }
