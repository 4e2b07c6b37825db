package bank

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txmgr/txmgr/internal/rig"
	"github.com/txmgr/txmgr/participant/mariadb"
	"github.com/txmgr/txmgr/participant/postgres"
	"github.com/txmgr/txmgr/txn"
)

// manualPostgres is a [manualBranch] in PostgreSQL.
type manualPostgres struct {
	*testEnv
	conn *pgx.Conn
	xid  string
}

func (h *manualPostgres) prepare(ctx context.Context, id txn.ID) (txn.BranchID, error) {
	var err error
	if h.conn, err = pgx.Connect(ctx, h.postgres.DSN(inBank)); err != nil {
		return 0, err
	}
	if _, err = h.conn.Exec(ctx, "BEGIN"); err != nil {
		return 0, err
	}
	var s postgres.SessionRef
	const who = `SELECT pg_backend_pid(), pg_current_xact_id()::text::bigint, (SELECT system_identifier FROM pg_control_system()),
		(SELECT backend_start FROM pg_stat_get_activity(pg_backend_pid())), (SELECT stats_reset FROM pg_stat_get_archiver()),
		format(' timeline=%s written=%s', left(pg_walfile_name(pg_current_wal_lsn()), 8), pg_logical_emit_message(false, 'txmgr', pg_current_xact_id()::text))`
	var place string
	if err := h.conn.QueryRow(ctx, who).Scan(&s.PID, &s.XID, &s.System, &s.Start, &s.Recovered, &place); err != nil {
		return 0, err
	}
	branch, err := h.m.Enlist(ctx, id, txn.Enlistment{Participant: inBank, SessionRef: s.String() + place})
	if err != nil {
		return 0, err
	}
	h.xid = branch.XID
	if _, err := h.conn.Exec(ctx, "INSERT INTO plant VALUES ($1)", id.String()); err != nil {
		return 0, err
	}
	_, err = h.conn.Exec(ctx, "PREPARE TRANSACTION '"+h.xid+"'")
	return branch.ID, err
}

func (h *manualPostgres) end(ctx context.Context, commit, mayHaveEnded bool) error {
	statement := "ROLLBACK PREPARED '" + h.xid + "'"
	if commit {
		statement = "COMMIT PREPARED '" + h.xid + "'"
	}
	tried := mayHaveEnded
	return rig.Retry(ctx, func() error {
		_, err := h.bank.ExecContext(ctx, statement)
		var refused *pgconn.PgError
		if errors.As(err, &refused) && refused.Code == pgUndefinedObject && tried {
			return nil // the answer to an earlier attempt was lost
		}
		tried = true
		return err
	})
}

const pgUndefinedObject = "42704"

func (h *manualPostgres) close() {
	if h.conn != nil {
		_ = h.conn.Close(context.Background())
	}
}

// manualMariaDB is a [manualBranch] in MariaDB, with a user of its own.
type manualMariaDB struct {
	*testEnv
	same   bool // ends the branch on the connection that prepared it
	db     *sql.DB
	conn   *sql.Conn
	number uint64 // of the connection
	script mariadb.Script
}

func (h *manualMariaDB) prepare(ctx context.Context, id txn.ID) (txn.BranchID, error) {
	var err error
	if h.db, err = openMariaDB(h.mariadb.DSNAs(manualUser, inSavings)); err != nil {
		return 0, err
	}
	if h.conn, err = h.db.Conn(ctx); err != nil {
		return 0, err
	}
	// The part that is the same for every branch.
	if h.script, err = mariadb.ManualSQL(txn.XID(h.cluster, id, 1), ""); err != nil {
		return 0, err
	}
	var session string
	err = errors.Join(
		h.conn.QueryRowContext(ctx, h.script.Session).Scan(&session),
		h.conn.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&h.number),
	)
	if err != nil {
		return 0, err
	}
	branch, err := h.m.Enlist(ctx, id, txn.Enlistment{Participant: inSavings, SessionRef: session})
	if err != nil {
		return 0, err
	}
	if h.script, err = mariadb.ManualSQL(branch.XID, ""); err != nil {
		return 0, err
	}
	for _, statement := range append(append(h.script.Begin, "INSERT INTO plant VALUES ('"+id.String()+"')"), h.script.Prepare...) {
		if _, err := h.conn.ExecContext(ctx, statement); err != nil {
			return 0, fmt.Errorf("%s: %w", statement, err)
		}
	}
	return branch.ID, nil
}

// end ends the branch in one of the two safe ways: on the connection that prepared it, or on
// another one when that has disconnected.
func (h *manualMariaDB) end(ctx context.Context, commit, mayHaveEnded bool) error {
	statement := h.script.Rollback
	if commit {
		statement = h.script.Commit
	}
	if h.same {
		if _, err := h.conn.ExecContext(ctx, statement); err == nil {
			return nil
		}
	}
	_ = h.conn.Raw(func(any) error { return driver.ErrBadConn }) // closes it
	tried := h.same || mayHaveEnded
	return rig.Retry(ctx, func() error {
		there, err := h.backendAlive(ctx)
		if err != nil {
			return err
		}
		if there {
			return fmt.Errorf("connection %d is still there", h.number)
		}
		_, err = h.savings.ExecContext(ctx, statement)
		var refused *mysql.MySQLError
		if errors.As(err, &refused) && refused.Number == mariaNOTA && tried {
			return nil // the answer to an earlier attempt was lost
		}
		tried = true
		return err
	})
}

const mariaNOTA = 1397

// backendAlive reports whether the connection that prepared is still open at the server.
func (h *manualMariaDB) backendAlive(ctx context.Context) (there bool, err error) {
	err = query(ctx, h.savings, "SELECT EXISTS(SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = ? AND USER = ?)", &there, h.number, manualUser)
	return there, err
}

func (h *manualMariaDB) close() {
	if h.conn != nil {
		_ = h.conn.Raw(func(any) error { return driver.ErrBadConn })
		_ = h.conn.Close()
	}
	if h.db != nil {
		_ = h.db.Close()
	}
}
