package postgres

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txmgr/txmgr/txn"
)

// DB is the application's side of one database. A transaction's first use of it
// takes a connection of the pool, begins a transaction there and enlists it;
// later uses get the same, until the global transaction has ended.
//
// A DB is safe for concurrent use; what it does for one transaction is not, as
// with [pgx.Tx].
type DB struct {
	// TxOptions say how transactions begin: isolation, and with [pgx.ReadOnly]
	// that nothing is changed, which saves the prepare. Not to be changed after
	// the first use. Defaults to what the server does.
	TxOptions pgx.TxOptions

	// OnePhase lets a branch that is its transaction's only one be committed without
	// a prepare, which saves two round trips of the server's disk. How it ended is
	// proved by the server, unless it crashes or fails over in the moment of the commit:
	// then the transaction ends as a hazard of unknown end, for a person to look at.
	// Not to be changed after the first use. Defaults to false: two phases.
	OnePhase bool

	name string
	pool *pgxpool.Pool
}

// New gives the database that the pool connects to. name is the participant's
// name at the coordinator. The pool remains the caller's.
func New(name string, pool *pgxpool.Pool) *DB { return &DB{name: name, pool: pool} }

// Exec runs a statement in the transaction.
func (db *DB) Exec(ctx context.Context, tx *txn.Tx, sql string, args ...any) (pgconn.CommandTag, error) {
	b, err := db.branch(ctx, tx)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	return db.namedTx(b).Exec(ctx, sql, args...)
}

// Query runs a query in the transaction. The rows have to be closed before the
// next statement.
func (db *DB) Query(ctx context.Context, tx *txn.Tx, sql string, args ...any) (pgx.Rows, error) {
	b, err := db.branch(ctx, tx)
	if err != nil {
		return nil, err
	}
	return db.namedTx(b).Query(ctx, sql, args...)
}

// QueryRow runs a query of which only the first row matters. Errors come with
// Scan.
func (db *DB) QueryRow(ctx context.Context, tx *txn.Tx, sql string, args ...any) pgx.Row {
	b, err := db.branch(ctx, tx)
	if err != nil {
		return failedRow{err}
	}
	return db.namedTx(b).QueryRow(ctx, sql, args...)
}

// Tx gives the transaction's own [pgx.Tx], for libraries that want one. Its
// Commit and Rollback answer [txn.ErrManaged], and so does a statement that would
// end the transaction; those of a nested one (Begin) work. Its Conn is not watched: a
// transaction that is ended there is [txn.ErrEndedByApplication] afterwards, and so is, once
// Conn was called, one that has failed or whose connection is lost, since it cannot be
// proved to be the branch's own. A nested one that is rolled back keeps the proof. Nothing may be done with it, nor with its Conn, after the end of the global
// transaction.
func (db *DB) Tx(ctx context.Context, tx *txn.Tx) (pgx.Tx, error) {
	b, err := db.branch(ctx, tx)
	if err != nil {
		return nil, err
	}
	return db.namedTx(b), nil
}

func (db *DB) branch(ctx context.Context, tx *txn.Tx) (*branch, error) {
	return txn.Join(ctx, tx, db.name, db.begin)
}

// begin opens the session of a branch and enlists it, before anything is done
// in it.
func (db *DB) begin(ctx context.Context, enlist txn.EnlistFunc) (_ *branch, err error) {
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("postgres %s: take a connection: %w", db.name, redactError(err))
	}
	b := &branch{name: db.name, conn: conn, readOnly: db.TxOptions.AccessMode == pgx.ReadOnly, onePhase: db.OnePhase}
	defer func() {
		if err != nil {
			b.Release() // nothing was done in it yet
		}
	}()
	options := db.TxOptions
	if b.readOnly {
		b.mark = rand.Text()
		options.BeginQuery = beginQuery(options) + "; SET LOCAL " + markSetting + " = '" + b.mark + "'"
	}
	inner, err := conn.BeginTx(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("postgres %s: begin: %w", db.name, err)
	}
	b.tx = &managedTx{inner: inner, branch: b, topLevel: true}
	session := ""
	if !b.readOnly {
		if b.sessionRef, err = identify(ctx, inner); err != nil {
			return nil, fmt.Errorf("postgres %s: identify the session: %w", db.name, err)
		}
		session = b.sessionRef.String()
	}
	enlisted, err := enlist(ctx, session, nil)
	if err != nil {
		return nil, err
	}
	b.xid = enlisted.XID
	return b, nil
}

// beginQuery is how a transaction with the options begins.
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

// sessionKey is under what a connection keeps which session it was last.
const sessionKey = "txmgr.session"

// identify asks a transaction which session it is, and makes the server give it
// its number. All but the number stays the same as long as the backend lives, and
// comes from files and from the list of all sessions, so a backend is asked for it
// once. Another one, behind a pooler that shares out connections, is asked anew.
func identify(ctx context.Context, tx pgx.Tx) (SessionRef, error) {
	kept := tx.Conn().PgConn().CustomData()
	if s, known := kept[sessionKey].(SessionRef); known {
		var pid int32
		var xid string
		var written *string
		if err := tx.QueryRow(ctx, "SELECT pg_backend_pid(), "+xidQuery).Scan(&pid, &xid, &written); err != nil {
			return SessionRef{}, err
		}
		if s.PID == uint32(pid) {
			return s.withXID(xid, written)
		}
	}
	s, err := identifyBackend(ctx, tx)
	if err == nil && !s.Recovered.IsZero() { // which becomes known some time after the server's start
		kept[sessionKey] = s
	}
	return s, err
}

// xidQuery asks for the transaction's number, and writes a record of the write-ahead
// log that has it, without waiting for the disk: by its place (LSN) it can be told
// after a failover whether the new primary had received a branch that was prepared. Where changes are decoded
// logically the record would be seen by those who decode them, so there is none.
const xidQuery = `pg_current_xact_id()::text, CASE WHEN current_setting('wal_level') <> 'logical'
	THEN pg_logical_emit_message(false, 'txmgr', pg_current_xact_id()::text)::text END`

// identifyBackend asks for everything. The view of the archiver would leave a lock
// on itself in the branch; the function does not.
func identifyBackend(ctx context.Context, tx pgx.Tx) (s SessionRef, err error) {
	var pid int32
	var xid, system, file string
	var recovered *time.Time
	var replayed, written *string
	err = tx.QueryRow(ctx, `
		SELECT pid, backend_start, (SELECT system_identifier::text FROM pg_control_system()),
			(SELECT stats_reset FROM pg_stat_get_archiver()), pg_walfile_name(pg_current_wal_lsn()),
			pg_postmaster_start_time(), pg_last_wal_replay_lsn()::text, `+xidQuery+`
		FROM pg_stat_get_activity(pg_backend_pid())`).Scan(&pid, &s.Start, &system, &recovered, &file, &s.Started, &replayed, &xid, &written)
	if err != nil {
		return SessionRef{}, err
	}
	s.PID = uint32(pid)
	if recovered != nil {
		s.Recovered = *recovered
	}
	if s.System, err = strconv.ParseUint(system, 10, 64); err != nil {
		return SessionRef{}, err
	}
	if s.Timeline, err = parseTimeline(file); err != nil {
		return SessionRef{}, err
	}
	if s.Replayed, err = parseOptionalLSN(replayed); err != nil {
		return SessionRef{}, err
	}
	return s.withXID(xid, written)
}

// withXID is the session at work on another transaction.
func (s SessionRef) withXID(xid string, written *string) (_ SessionRef, err error) {
	if s.Written, err = parseOptionalLSN(written); err != nil {
		return SessionRef{}, err
	}
	s.XID, err = strconv.ParseUint(xid, 10, 64)
	return s, err
}

// parseOptionalLSN reads a place in the write-ahead log, zero if there is none.
func parseOptionalLSN(text *string) (uint64, error) {
	if text == nil {
		return 0, nil
	}
	at, err := parseLSN(*text)
	return uint64(at), err
}

// failedRow is a row that could not be asked for.
type failedRow struct{ err error }

// Scan implements [pgx.Row].
func (f failedRow) Scan(...any) error { return f.err }
