package demo

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/branchexec"
	"github.com/txmgr/txmgr/participant/mariadb"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// mariadbDatabase is a MariaDB database. Its accounts, and its marker rows, are in tables that the
// demo creates and drops.
type mariadbDatabase struct {
	p     admin.Participant
	where string
	pool  *sql.DB
	db    *mariadb.DB
	made  bool // the demo has created the table
}

const demoMarkerTable = "txmgr_demo_proof"

// newMariaDBDatabase connects to a database. The coordinator reads the DSN from a file, since it
// may contain a password.
func newMariaDBDatabase(name, dsn, where, dir string) (*mariadbDatabase, error) {
	file := filepath.Join(dir, name+".dsn")
	if err := os.WriteFile(file, []byte(dsn), 0o600); err != nil {
		return nil, err
	}
	p := admin.Participant{Name: name, Kind: mariadb.Kind, Settings: map[string]string{"dsn_file": file, "commit_marker": demoMarkerTable}}
	pool, err := branchexec.OpenMariaDB(p, os.Getenv)
	if err != nil {
		return nil, err
	}
	return &mariadbDatabase{p: p, where: where, pool: pool, db: branchexec.NewMariaDB(p, pool)}, nil
}

func (d *mariadbDatabase) name() string { return d.p.Name }

func (d *mariadbDatabase) describe() string { return d.where }

func (d *mariadbDatabase) registration() admin.Participant { return d.p }

func (d *mariadbDatabase) create(ctx context.Context, balances map[string]int64) error {
	_, err := d.pool.ExecContext(ctx, "CREATE TABLE txmgr_demo (account VARCHAR(64) PRIMARY KEY, balance BIGINT NOT NULL, CONSTRAINT not_below_zero CHECK (balance >= 0)) ENGINE=InnoDB")
	if err != nil {
		return err
	}
	d.made = true
	insert := "INSERT INTO txmgr_demo VALUES " + strings.TrimSuffix(strings.Repeat("(?, ?),", len(balances)), ",")
	var values []any
	for _, account := range slices.Sorted(maps.Keys(balances)) {
		values = append(values, account, balances[account])
	}
	_, err = d.pool.ExecContext(ctx, insert, values...)
	return err
}

const addMariaDB = "UPDATE txmgr_demo SET balance = balance + ? WHERE account = ?"

func (d *mariadbDatabase) add(ctx context.Context, tx *txn.Tx, account string, amount int64) error {
	_, err := d.db.Exec(ctx, tx, addMariaDB, amount, account)
	return err
}

func (d *mariadbDatabase) deposit(ctx context.Context, account string, amount int64) error {
	_, err := d.pool.ExecContext(ctx, addMariaDB, amount, account)
	return err
}

func (d *mariadbDatabase) balances(ctx context.Context) (map[string]int64, error) {
	rows, err := d.pool.QueryContext(ctx, "SELECT account, balance FROM txmgr_demo")
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
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

// prepared reads XA RECOVER, which lists the branches of the whole server: the cluster belongs to
// the demo alone, and has no other database there.
func (d *mariadbDatabase) prepared(ctx context.Context, prefix string) (xids []string, err error) {
	rows, err := d.pool.QueryContext(ctx, "XA RECOVER")
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	for rows.Next() {
		var format, gtrid, bqual int
		var data string
		if err := rows.Scan(&format, &gtrid, &bqual, &data); err != nil {
			return nil, err
		}
		if strings.HasPrefix(data, prefix) && format == mariadb.FormatID && gtrid+bqual == len(data) {
			xids = append(xids, data[:gtrid]+"_"+data[gtrid:])
		}
	}
	return xids, rows.Err()
}

const unknownXID = 1397 // also while the connection that prepared it is still open

// rollbackManually repeats until the connection that prepared the branch is closed.
func (d *mariadbDatabase) rollbackManually(ctx context.Context, xid string) (string, error) {
	script, err := mariadb.ManualSQL(xid, "")
	if err != nil {
		return "", err
	}
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		_, err := d.pool.ExecContext(ctx, script.Rollback)
		said := new(mysql.MySQLError)
		if !errors.As(err, &said) || said.Number != unknownXID {
			return script.Rollback, err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return "", errors.Join(err, context.Cause(ctx))
		}
	}
}

func (d *mariadbDatabase) close(ctx context.Context) error {
	var err error
	if d.made {
		_, err = d.pool.ExecContext(ctx, "SET STATEMENT lock_wait_timeout = 5 FOR DROP TABLE IF EXISTS txmgr_demo, "+demoMarkerTable)
	}
	return errors.Join(err, d.pool.Close())
}
