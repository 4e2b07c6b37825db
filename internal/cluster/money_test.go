package cluster

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/txmgr/txmgr/internal/faultproxy"
	"github.com/txmgr/txmgr/internal/rig"
	"github.com/txmgr/txmgr/participant/mariadb"
	"github.com/txmgr/txmgr/participant/postgres"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// The places where money is, which are the participants' names.
const (
	inBank         = "bank"    // PostgreSQL
	inBank2        = "teller"  // PostgreSQL, the same database: a transaction may have two branches there
	inSavings      = "savings" // MariaDB
	accounts       = 100       // in each place
	openingBalance = 1000      // in each account
)

// money is in two databases of two kinds.
type money struct {
	cluster       *testCluster
	tag           string // the cluster id, part of every XID
	bankDSN       string
	bank, savings *sql.DB
	pg            *postgres.DB // for transfer clients
	maria         *mariadb.DB
	proxies       map[string]*faultproxy.Proxy
	foreign       []string // prepared by others
}

// newMoney creates the databases, and registers them with the cluster, which reaches them through
// proxies.
func newMoney(b *testCluster, maxConns int) *money {
	b.t.Helper()
	m := &money{cluster: b, proxies: map[string]*faultproxy.Proxy{}}
	pgName, mariaName := pgServer.NewDatabase(b.t, "bank"), mariaServer.NewDatabase(b.t, "savings")
	var errBank, errSavings error
	m.bankDSN = pgServer.DSN(pgName)
	m.bank, errBank = sql.Open("pgx", m.bankDSN)
	m.savings, errSavings = openMariaDB(mariaServer.DSN(mariaName))
	b.must(errors.Join(errBank, errSavings))
	config, err := pgxpool.ParseConfig(pgServer.DSN(pgName))
	b.must(err)
	config.MaxConns = int32(maxConns)
	pool, err := pgxpool.NewWithConfig(b.t.Context(), config)
	b.must(err)
	work, err := openMariaDB(mariaServer.DSN(mariaName))
	b.must(err)
	work.SetMaxOpenConns(maxConns)
	work.SetMaxIdleConns(maxConns)
	b.t.Cleanup(func() {
		pool.Close()
		_, _, _ = work.Close(), m.bank.Close(), m.savings.Close()
	})
	m.pg, m.maria = postgres.New(inBank, pool), mariadb.New(inSavings, work)
	for _, db := range []*sql.DB{m.bank, m.savings} {
		m.exec(db, "CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL CHECK (balance >= 0))")
		m.exec(db, "CREATE TABLE journal (tx varchar(40), account int, delta bigint, PRIMARY KEY (tx, account))")
		var rows []string
		for i := range accounts {
			rows = append(rows, fmt.Sprintf("(%d, %d)", i, openingBalance))
		}
		m.exec(db, "INSERT INTO account VALUES "+strings.Join(rows, ", "))
	}
	m.register(pgName, mariaName)
	m.prepareForeign()
	return m
}

func (m *money) register(pgName, mariaName string) {
	b := m.cluster
	for place, port := range map[string]int{inBank: pgServer.Port(), inSavings: mariaServer.Port()} {
		r, err := faultproxy.New(b.net.hostAddress()+":0", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		b.must(err)
		b.t.Cleanup(r.Close)
		m.proxies[place] = r
	}
	bank, err := url.Parse(pgServer.DSN(pgName))
	b.must(err)
	bank.Host = m.proxies[inBank].Address()
	savings, err := mysql.ParseDSN(mariaServer.DSN(mariaName))
	b.must(err)
	savings.Addr = m.proxies[inSavings].Address()
	for _, p := range []admin.Participant{
		{Name: inBank, Kind: "postgres", Settings: map[string]string{"dsn": bank.String()}},
		{Name: inBank2, Kind: "postgres", Settings: map[string]string{"dsn": bank.String()}},
		{Name: inSavings, Kind: "mariadb", Settings: map[string]string{"dsn": savings.FormatDSN()}},
	} {
		b.must(b.m.Admin().AddParticipant(b.t.Context(), p, "", ""))
	}
	s, err := b.m.Admin().Status(b.t.Context())
	b.must(err)
	m.tag = s.Cluster
}

// openMariaDB opens a pool that does not log: lost connections are expected.
func openMariaDB(dsn string) (*sql.DB, error) {
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	config.Logger = log.New(io.Discard, "", 0)
	config.Params = map[string]string{"innodb_lock_wait_timeout": "3"}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

func (m *money) exec(db *sql.DB, statement string) {
	m.cluster.t.Helper()
	if _, err := db.ExecContext(m.cluster.t.Context(), statement); err != nil {
		m.cluster.t.Fatalf("%s: %v", statement, err)
	}
}

// prepareForeign prepares branches that this cluster must not change: of another application, and
// of a cluster whose id begins as this one's does.
func (m *money) prepareForeign() {
	m.exec(m.bank, "CREATE TABLE foreign_work (n int)")
	for _, gid := range []string{"foreign_" + m.tag, txn.XID(m.tag+"x", rig.NewID(), 1)} {
		conn, err := m.bank.Conn(m.cluster.t.Context())
		m.cluster.must(err)
		for _, s := range []string{"BEGIN", "INSERT INTO foreign_work VALUES (1)", "PREPARE TRANSACTION '" + gid + "'"} {
			_, err := conn.ExecContext(m.cluster.t.Context(), s)
			m.cluster.must(err)
		}
		m.cluster.must(conn.Close())
		m.foreign = append(m.foreign, gid)
	}
}

// untouched returns an error if a branch of others is missing.
func (m *money) untouched(ctx context.Context) error {
	for _, gid := range m.foreign {
		var n int
		err := m.bank.QueryRowContext(ctx, "SELECT count(*) FROM pg_prepared_xacts WHERE gid = $1", gid).Scan(&n)
		if err == nil && n != 1 {
			err = fmt.Errorf("%s, which others had prepared, is gone", gid)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// prepared lists what this cluster has prepared.
func (m *money) prepared(ctx context.Context) (all []string, err error) {
	for _, q := range []struct {
		db        *sql.DB
		statement string
		columns   int // the name is the last one
	}{
		{m.bank, "SELECT gid FROM pg_prepared_xacts", 1},
		{m.savings, "XA RECOVER", 4},
	} {
		found, err := texts(ctx, q.db, q.statement, q.columns)
		if err != nil {
			return nil, err
		}
		for _, name := range found {
			if strings.HasPrefix(name, txn.ClusterPrefix(m.tag)) {
				all = append(all, name)
			}
		}
	}
	return all, nil
}

// texts returns the last column of a statement's result.
func texts(ctx context.Context, db *sql.DB, statement string, columns int) (all []string, err error) {
	rows, err := db.QueryContext(ctx, statement)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", statement, err)
	}
	defer rows.Close()
	row, to := make([]sql.RawBytes, columns), make([]any, columns)
	for i := range row {
		to[i] = &row[i]
	}
	for rows.Next() {
		if err := rows.Scan(to...); err != nil {
			return nil, err
		}
		all = append(all, string(row[columns-1]))
	}
	return all, rows.Err()
}
