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

	"github.com/txmgr/txmgr/participant/postgres/internal/connect"
	"github.com/txmgr/txmgr/participant/postgres/internal/sqltext"
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

	// OnePhase lets the only branch of a transaction be committed without prepare, which saves
	// two disk syncs of the server. The server proves the outcome, unless it crashes or fails
	// over at the moment of the commit: then the transaction ends with a heuristic hazard, which
	// an operator has to resolve. Not to be changed after the first use. Defaults to false: two
	// phases.
	OnePhase bool

	name string
	pool *pgxpool.Pool
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
		return db.begin(ctx, tx.Timeout(), enlist)
	})
}

// begin takes a connection for a branch, begins its transaction and enlists it, before its first
// work.
func (db *DB) begin(ctx context.Context, timeout time.Duration, enlist txn.EnlistFunc) (_ *branch, err error) {
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("postgres %s: take a connection: %w", db.name, connect.Redact(err))
	}
	b := &branch{name: db.name, conn: conn, readOnly: db.TxOptions.AccessMode == pgx.ReadOnly, onePhase: db.OnePhase}
	defer func() {
		if err != nil {
			b.Release() // the branch has no work yet
		}
	}()
	options := db.TxOptions
	options.BeginQuery = beginQuery(options) + keepalives(timeout)
	if b.readOnly {
		b.mark = rand.Text()
		options.BeginQuery += "; SET LOCAL " + sqltext.MarkSetting + " = '" + b.mark + "'"
	}
	inner, err := conn.BeginTx(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("postgres %s: begin: %w", db.name, err)
	}
	b.tx = &managedTx{inner: inner, branch: b, topLevel: true}
	sessionRef := ""
	if !b.readOnly {
		if b.sessionRef, err = identify(ctx, inner); err != nil {
			return nil, fmt.Errorf("postgres %s: identify the connection: %w", db.name, err)
		}
		sessionRef = b.sessionRef.String()
	}
	enlisted, err := enlist(ctx, sessionRef, nil)
	if err != nil {
		return nil, err
	}
	b.xid = enlisted.XID
	return b, nil
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
func keepalives(timeout time.Duration) string {
	const probes = 3
	half := int(min(timeout, maxKeepalive)/time.Second) / 2
	return fmt.Sprintf("; SET LOCAL tcp_keepalives_idle = %d; SET LOCAL tcp_keepalives_interval = %d; SET LOCAL tcp_keepalives_count = %d",
		max(half, 1), max(half/probes, 1), probes)
}

// sessionKey is the key of the session reference that a connection caches.
const sessionKey = "txmgr.session"

// identify returns the session reference of a transaction, and makes the server assign its
// number. All other fields stay the same while the backend lives, and the server reads files and
// the list of all backends for them; so a backend is queried for them once. If a pooler has
// assigned another backend, that one is queried again.
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
	if err == nil && !s.Recovered.IsZero() { // the server knows it only some time after its start
		kept[sessionKey] = s
	}
	return s, err
}

// xidQuery asks for the transaction's number, and writes a record with it to the write-ahead
// log, without waiting for the disk: after a failover, the place of the record (LSN) shows
// whether the new primary had received a branch that was prepared. With logical decoding the
// consumers would see the record, so none is written.
const xidQuery = `pg_current_xact_id()::text, CASE WHEN current_setting('wal_level') <> 'logical'
	THEN pg_logical_emit_message(false, 'txmgr', pg_current_xact_id()::text)::text END`

// identifyBackend queries all fields. It calls the archiver's function, because the view
// pg_stat_archiver would leave a lock on itself in the branch.
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

// withXID returns the reference of the same backend with another transaction.
func (s SessionRef) withXID(xid string, written *string) (_ SessionRef, err error) {
	if s.Written, err = parseOptionalLSN(written); err != nil {
		return SessionRef{}, err
	}
	s.XID, err = strconv.ParseUint(xid, 10, 64)
	return s, err
}

// parseOptionalLSN reads a place in the write-ahead log; nil gives zero.
func parseOptionalLSN(text *string) (uint64, error) {
	if text == nil {
		return 0, nil
	}
	at, err := parseLSN(*text)
	return uint64(at), err
}

// failedRow is the row of a query that was not sent.
type failedRow struct{ err error }

// Scan implements [pgx.Row].
func (f failedRow) Scan(...any) error { return f.err }
