package demo

import (
	"context"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/branchexec"
	"github.com/txmgr/txmgr/participant/postgres"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// postgresDatabase is a PostgreSQL database. Its accounts are in a table that the demo creates and
// drops.
type postgresDatabase struct {
	p     admin.Participant
	where string
	pool  *pgxpool.Pool
	db    *postgres.DB
	made  bool // the demo has created the table
}

// newPostgresDatabase connects to a database. The coordinator reads the DSN from a file, since it
// may contain a password.
func newPostgresDatabase(ctx context.Context, name, dsn, where, dir string) (*postgresDatabase, error) {
	file := filepath.Join(dir, name+".dsn")
	if err := os.WriteFile(file, []byte(dsn), 0o600); err != nil {
		return nil, err
	}
	// Without a marker table, so that nothing is left in the database.
	p := admin.Participant{Name: name, Kind: postgres.Kind, Settings: map[string]string{"dsn_file": file, "commit_marker": "off"}}
	pool, err := branchexec.OpenPostgres(ctx, p, os.Getenv)
	if err != nil {
		return nil, err
	}
	return &postgresDatabase{p: p, where: where, pool: pool, db: branchexec.NewPostgres(p, pool)}, nil
}

func (d *postgresDatabase) name() string { return d.p.Name }

func (d *postgresDatabase) describe() string { return d.where }

func (d *postgresDatabase) registration() admin.Participant { return d.p }

// The check is deferred: it is made when the transaction prepares, so that the database votes no.
const makeTable = `
CREATE TABLE txmgr_demo (account text PRIMARY KEY, balance bigint NOT NULL);
CREATE FUNCTION txmgr_demo_check() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.balance < 0 THEN
		RAISE EXCEPTION 'account % would go below zero: %', NEW.account, NEW.balance;
	END IF;
	RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER txmgr_demo_check AFTER INSERT OR UPDATE ON txmgr_demo
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION txmgr_demo_check();`

func (d *postgresDatabase) create(ctx context.Context, balances map[string]int64) error {
	if _, err := d.pool.Exec(ctx, makeTable); err != nil {
		return err
	}
	d.made = true
	for account, balance := range balances {
		if _, err := d.pool.Exec(ctx, "INSERT INTO txmgr_demo VALUES ($1, $2)", account, balance); err != nil {
			return err
		}
	}
	return nil
}

func (d *postgresDatabase) add(ctx context.Context, tx *txn.Tx, account string, amount int64) error {
	_, err := d.db.Exec(ctx, tx, "UPDATE txmgr_demo SET balance = balance + $2 WHERE account = $1", account, amount)
	return err
}

func (d *postgresDatabase) deposit(ctx context.Context, account string, amount int64) error {
	_, err := d.pool.Exec(ctx, "UPDATE txmgr_demo SET balance = balance + $2 WHERE account = $1", account, amount)
	return err
}

func (d *postgresDatabase) balances(ctx context.Context) (map[string]int64, error) {
	rows, err := d.pool.Query(ctx, "SELECT account, balance FROM txmgr_demo")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := map[string]int64{}
	for rows.Next() {
		var account string
		var balance int64
		if err := rows.Scan(&account, &balance); err != nil {
			return nil, err
		}
		all[account] = balance
	}
	return all, rows.Err()
}

func (d *postgresDatabase) prepared(ctx context.Context, prefix string) ([]string, error) {
	rows, err := d.pool.Query(ctx, "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() AND starts_with(gid, $1)", prefix)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var gids []string
	for rows.Next() {
		var gid string
		if err := rows.Scan(&gid); err != nil {
			return nil, err
		}
		gids = append(gids, gid)
	}
	return gids, rows.Err()
}

func (d *postgresDatabase) rollbackManually(ctx context.Context, xid string) (string, error) {
	typed := "ROLLBACK PREPARED '" + xid + "'" // letters, digits and underscores
	_, err := d.pool.Exec(ctx, typed)
	return typed, err
}

func (d *postgresDatabase) close(ctx context.Context) error {
	defer d.pool.Close()
	if !d.made {
		return nil
	}
	_, err := d.pool.Exec(ctx, "SET lock_timeout = '5s'; DROP TABLE txmgr_demo; DROP FUNCTION txmgr_demo_check")
	return err
}
