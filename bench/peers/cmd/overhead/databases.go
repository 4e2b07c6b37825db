package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txmgr/txmgr/bench/peers/internal/rig"
	"github.com/txmgr/txmgr/internal/testdb"
)

// maxWorkers is the number of rows for transactions of both databases. As many more, after them,
// are for those of one.
const maxWorkers = 64

// The statements of each transaction, in every way.
const (
	pgUpdate = "UPDATE account SET balance = balance - $1 WHERE id = $2"
	myUpdate = "UPDATE account SET balance = balance + ? WHERE id = ?"
)

// databases are the two servers. Every contender has a database of its own on both.
type databases struct {
	pg *testdb.Postgres
	my *testdb.MariaDB
}

// startDatabases returns what has been started even if it fails.
func startDatabases(ctx context.Context, dir string, maxPrepared int) (d databases, err error) {
	d.pg, err = testdb.StartPostgres(ctx, testdb.PostgresConfig{
		Parent: dir, MaxPrepared: maxPrepared, Settings: map[string]string{"max_connections": "400"},
	})
	if err != nil {
		return d, err
	}
	d.my, err = testdb.StartMariaDB(ctx, testdb.MariaDBConfig{
		Parent: dir, Settings: map[string]string{"max-connections": "400", "innodb-buffer-pool-size": "256M", "innodb-log-file-size": "256M"},
	})
	return d, err
}

func (d databases) close() error {
	var errs []error
	if d.pg != nil {
		errs = append(errs, d.pg.Close())
	}
	if d.my != nil {
		errs = append(errs, d.my.Close())
	}
	return errors.Join(errs...)
}

// cpu is the processor time of both servers so far.
func (d databases) cpu() (pg, my time.Duration, err error) {
	pg, errPG := rig.CPUOfTree(d.pg.PID())
	my, errMy := rig.CPUOfTree(d.my.PID())
	return pg, my, errors.Join(errPG, errMy)
}

// pools are one contender's connections to its own databases.
type pools struct {
	name  string
	pg    *pgxpool.Pool
	my    *sql.DB
	pgDSN string // as a coordinator registers it
	myDSN string
}

// open creates the databases of that name, with a row for each worker, and pools of conns
// connections.
func (d databases) open(ctx context.Context, name string, conns int) (p *pools, err error) {
	p = &pools{name: name, pgDSN: d.pg.DSN(name), myDSN: d.my.DSN(name)}
	if err := errors.Join(d.pg.CreateDatabase(ctx, name), d.my.CreateDatabase(ctx, name)); err != nil {
		return p, err
	}
	if p.pg, err = pgxpool.New(ctx, fmt.Sprintf("%s&pool_max_conns=%d", p.pgDSN, conns)); err != nil {
		return p, err
	}
	// One round trip for each statement, as most applications have it.
	if p.my, err = sql.Open("mysql", p.myDSN+"?interpolateParams=true"); err != nil {
		return p, err
	}
	p.my.SetMaxOpenConns(conns)
	p.my.SetMaxIdleConns(conns)
	for _, statement := range []string{
		"CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL) WITH (fillfactor = 10)",
		fmt.Sprintf("INSERT INTO account SELECT i, 0 FROM generate_series(0, %d) i", 2*maxWorkers-1),
	} {
		if _, err := p.pg.Exec(ctx, statement); err != nil {
			return p, fmt.Errorf("PostgreSQL: %w", err)
		}
	}
	for _, statement := range []string{
		"CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL) ENGINE=InnoDB",
		fmt.Sprintf("INSERT INTO account SELECT seq, 0 FROM seq_0_to_%d", 2*maxWorkers-1),
	} {
		if _, err := p.my.ExecContext(ctx, statement); err != nil {
			return p, fmt.Errorf("MariaDB: %w", err)
		}
	}
	return p, nil
}

// moved checks that as many transactions have changed one database as the other, and returns the
// number: each subtracts one in one database and adds it in the other.
func (p *pools) moved(ctx context.Context) (int64, error) {
	var off, on int64
	if err := p.pg.QueryRow(ctx, "SELECT -sum(balance)::bigint FROM account WHERE id < $1", maxWorkers).Scan(&off); err != nil {
		return 0, fmt.Errorf("PostgreSQL: %w", err)
	}
	if err := p.my.QueryRowContext(ctx, "SELECT CAST(SUM(balance) AS SIGNED) FROM account WHERE id < ?", maxWorkers).Scan(&on); err != nil {
		return 0, fmt.Errorf("MariaDB: %w", err)
	}
	if off != on {
		return 0, fmt.Errorf("database %s: %d left PostgreSQL and %d arrived at MariaDB", p.name, off, on)
	}
	return off, nil
}

func (p *pools) close() error {
	if p.pg != nil {
		p.pg.Close()
	}
	if p.my != nil {
		return p.my.Close()
	}
	return nil
}
