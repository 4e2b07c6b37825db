package markertable

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txmgr/txmgr/participant/postgres/internal/sqlstate"
)

// Insert is the statement that writes a branch's own row. name is the expression for the branch's name. It
// returns the relation that it was written to, which needs no privilege to read it, and then the
// expressions in also.
func (t Table) Insert(name, also string) string {
	table := t.Quoted()
	return "INSERT INTO " + table + " (xid, kind) VALUES (" + name + ", " + strconv.Itoa(Commit) + ") RETURNING '" + table + "'::regclass::oid" + also
}

// Row is what a table says of a branch, and where it was read.
type Row struct {
	Kind    int
	System  string // the server's system identifier
	Standby bool
	ID      ID
}

// Read reads a branch's marker row.
func (t Table) Read(ctx context.Context, pool *pgxpool.Pool, xid string) (r Row, err error) {
	err = pool.QueryRow(ctx, `
		SELECT coalesce((SELECT kind FROM `+t.Quoted()+` WHERE xid = $1), 0), (SELECT system_identifier::text FROM pg_control_system()),
			pg_is_in_recovery(), (SELECT oid FROM pg_database WHERE datname = current_database()), '`+t.Quoted()+`'::regclass::oid`, xid).
		Scan(&r.Kind, &r.System, &r.Standby, &r.ID.Database, &r.ID.Relation)
	switch sqlstate.Of(err) {
	case sqlstate.NoTable, sqlstate.NoSchema:
		err = fmt.Errorf("there is no marker table %s: register the database that the application uses, with the same commit_marker; or the table was dropped, and with it the proof of commits: %w", t, err)
	case sqlstate.NotAllowed:
		err = fmt.Errorf("read the marker table; a user with the privilege has to run: %s: %w", t.GrantCoordinator("the coordinator's user"), err)
	}
	return r, err
}

// durable begins a transaction whose commit is answered when it is on disk, and on the synchronous
// standbys, if there are any; and which does not wait for locks for long.
var durable = pgx.TxOptions{BeginQuery: `BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL lock_timeout = '100ms';
	SELECT set_config('synchronous_commit', replace(current_setting('synchronous_commit'), 'off', 'on'), true)`}

// ErrLocked means that a transaction that has not ended has the row locked.
var ErrLocked = errors.New("its row is locked")

// ConfirmDurable ensures that a marker row that can be read is on disk, which it need not be if
// synchronous_commit was off. A later commit is on disk only after it. The error is [ErrLocked]
// if another worker does the same.
func (t Table) ConfirmDurable(ctx context.Context, pool *pgxpool.Pool, xid string) error {
	_, err := t.change(ctx, pool, "UPDATE "+t.Quoted()+" SET at = clock_timestamp() WHERE xid = $1", xid)
	return err
}

// WriteBarrier inserts the marker row that keeps a branch from writing its own. written is false
// if there is a row already. The error is [ErrLocked] if a transaction has written one and has
// not ended: the branch's own, or another worker's.
func (t Table) WriteBarrier(ctx context.Context, pool *pgxpool.Pool, xid string) (written bool, err error) {
	return t.change(ctx, pool, fmt.Sprintf("INSERT INTO %s (xid, kind) VALUES ($1, %d) ON CONFLICT DO NOTHING", t.Quoted(), Barrier), xid)
}

func (t Table) change(ctx context.Context, pool *pgxpool.Pool, statement, xid string) (changed bool, err error) {
	err = pgx.BeginTxFunc(ctx, pool, durable, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, statement, xid)
		changed = tag.RowsAffected() > 0
		return err
	})
	if sqlstate.Of(err) == sqlstate.LockTimeout {
		err = ErrLocked
	}
	return changed && err == nil, err
}
