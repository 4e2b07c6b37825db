package soak

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/txmgr/txmgr/internal/rig"
	"github.com/txmgr/txmgr/internal/testdb"
	"github.com/txmgr/txmgr/participant/mariadb"
	"github.com/txmgr/txmgr/participant/postgres"
	"github.com/txmgr/txmgr/txn/admin"
)

// The places where money is, which are the participants' names.
const (
	inBank         = "bank"    // PostgreSQL
	inSavings      = "savings" // MariaDB
	inVault        = "vault"   // the web service
	accounts       = 200       // in each place
	openingBalance = 1000      // in each account
)

// money is in three places.
type money struct {
	b       *testEnv
	readers map[string]*sql.DB // to check; the application does not use them
	pg      *postgres.DB       // for applications, as maria is
	maria   *mariadb.DB
	pool    *pgxpool.Pool // what pg uses
	work    *sql.DB       // what maria uses
	vault   *vaultService
	tag     string // the cluster id, part of every XID
}

// maxConns is more than the number of workers.
const maxConns = 24

func newMoney(b *testEnv) *money {
	pgServer := testdb.OpenPostgres(b.t, testdb.PostgresConfig{NoFsync: true})
	mariaServer := testdb.OpenMariaDB(b.t, testdb.MariaDBConfig{NoFsync: true})
	bank, vault, savings := pgServer.NewDatabase(b.t, inBank), pgServer.NewDatabase(b.t, inVault), mariaServer.NewDatabase(b.t, inSavings)
	m := &money{b: b, readers: map[string]*sql.DB{
		inBank: b.sql("pgx", pgServer.DSN(bank)), inVault: b.sql("pgx", pgServer.DSN(vault)), inSavings: b.maria(mariaServer.DSN(savings)),
	}}
	for _, db := range m.readers {
		var rows []string
		for i := range accounts {
			rows = append(rows, fmt.Sprintf("(%d, %d)", i, openingBalance))
		}
		for _, s := range []string{
			"CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL)",
			"CREATE TABLE journal (tx varchar(40) PRIMARY KEY, account int NOT NULL, delta bigint NOT NULL)",
			"INSERT INTO account VALUES " + strings.Join(rows, ", "),
		} {
			_, err := db.ExecContext(b.t.Context(), s)
			b.must(err)
		}
	}
	config, err := pgxpool.ParseConfig(pgServer.DSN(bank))
	b.must(err)
	config.MaxConns = maxConns
	config.ConnConfig.RuntimeParams["lock_timeout"] = "3s"
	pool, err := pgxpool.NewWithConfig(b.t.Context(), config)
	b.must(err)
	b.t.Cleanup(pool.Close)
	work := b.maria(mariaServer.DSN(savings))
	work.SetMaxOpenConns(maxConns)
	work.SetMaxIdleConns(maxConns)
	m.pg, m.maria = postgres.New(inBank, pool), mariadb.New(inSavings, work)
	m.pool, m.work = pool, work
	m.vault = newVaultService(b, m.readers[inVault])
	for _, p := range []admin.Participant{
		{Name: inBank, Kind: "postgres", Settings: map[string]string{"dsn": pgServer.DSN(bank)}},
		{Name: inSavings, Kind: "mariadb", Settings: map[string]string{"dsn": mariaServer.DSN(savings)}},
		{Name: inVault, Kind: "web", CoordinatorPrepares: true, Settings: map[string]string{"url": m.vault.url, "list": "/prepared", "timeout": "1s"}},
	} {
		b.must(b.nodes[0].m.Admin().AddParticipant(b.t.Context(), p, "", ""))
	}
	s, err := b.nodes[0].m.Admin().Status(b.t.Context())
	b.must(err)
	m.tag = s.Cluster
	return m
}

func (b *testEnv) sql(driver, dsn string) *sql.DB {
	db, err := sql.Open(driver, dsn)
	b.must(err)
	b.t.Cleanup(func() { _ = db.Close() })
	return db
}

// maria opens a pool that does not log: connections that are closed in the middle of their work,
// because their caller's context ended, are the purpose of the load.
func (b *testEnv) maria(dsn string) *sql.DB {
	config, err := mysql.ParseDSN(dsn)
	b.must(err)
	config.Logger = log.New(io.Discard, "", 0)
	config.Params = map[string]string{"innodb_lock_wait_timeout": "3"}
	connector, err := mysql.NewConnector(config)
	b.must(err)
	db := sql.OpenDB(connector)
	b.t.Cleanup(func() { _ = db.Close() })
	return db
}

// awaitIdle waits until no transaction is active, completing or prepared.
func (m *money) awaitIdle() {
	m.b.t.Helper()
	ctx, cancel := context.WithTimeout(m.b.t.Context(), 2*rig.WaitTimeout)
	defer cancel()
	m.b.must(rig.Retry(ctx, func() error {
		all, err := m.b.statuses(ctx)
		if err != nil {
			return err
		}
		for i, s := range all {
			if s.Undecided+s.Completing+s.Sessions > 0 || s.Committed != all[0].Committed || s.RolledBack != all[0].RolledBack {
				return fmt.Errorf("not settled: %s has %d open, %d undone, %d sessions, %d committed, %d rolled back; %s has %d and %d",
					m.b.nodes[i].Name, s.Undecided, s.Completing, s.Sessions, s.Committed, s.RolledBack, m.b.nodes[0].Name, all[0].Committed, all[0].RolledBack)
			}
		}
		return m.prepared(ctx)
	}))
}

// openConnections is how many connections the nodes hold: to PostgreSQL, MariaDB and the service.
func (m *money) openConnections(ctx context.Context) (pg, maria, web int, err error) {
	if err = m.readers[inBank].QueryRowContext(ctx, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'").Scan(&pg); err != nil {
		return 0, 0, 0, err
	}
	if err = m.readers[inSavings].QueryRowContext(ctx, "SELECT count(*) FROM information_schema.processlist WHERE user = 'root'").Scan(&maria); err != nil {
		return 0, 0, 0, err
	}
	pg -= int(m.pool.Stat().TotalConns()) + m.readers[inBank].Stats().OpenConnections + m.readers[inVault].Stats().OpenConnections
	maria -= m.work.Stats().OpenConnections + m.readers[inSavings].Stats().OpenConnections
	return pg, maria, int(m.vault.conns.Load()), nil
}

// prepared returns an error as long as something is prepared.
func (m *money) prepared(ctx context.Context) error {
	var n, held, xa int
	err := m.readers[inBank].QueryRowContext(ctx, "SELECT count(*) FROM pg_prepared_xacts").Scan(&n)
	if err == nil {
		err = m.readers[inVault].QueryRowContext(ctx, "SELECT count(*) FROM held").Scan(&held)
	}
	if err != nil {
		return err
	}
	rows, err := m.readers[inSavings].QueryContext(ctx, "XA RECOVER")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		xa++
	}
	if n+held+xa > 0 {
		err = fmt.Errorf("not settled: prepared are %d in PostgreSQL, %d in MariaDB, %d in the service", n, xa, held)
	}
	return errors.Join(err, rows.Err())
}

// checkConsistency compares accounts with journals, and journals with the outcomes that the
// applications got.
func (m *money) checkConsistency(all []*transfer) {
	t, ctx := m.b.t, m.b.t.Context()
	found := map[string]map[string]entry{} // by transaction and place
	var total int64
	for place, db := range m.readers {
		var wrong int
		m.b.must(db.QueryRowContext(ctx, fmt.Sprintf(
			"SELECT count(*) FROM account a WHERE a.balance <> %d + coalesce((SELECT sum(j.delta) FROM journal j WHERE j.account = a.id), 0)", openingBalance)).Scan(&wrong))
		if wrong > 0 {
			t.Errorf("%s: %d accounts are not what the journal says", place, wrong)
		}
		var sum int64
		m.b.must(db.QueryRowContext(ctx, "SELECT sum(balance) FROM account").Scan(&sum))
		total += sum
		rows, err := db.QueryContext(ctx, "SELECT tx, account, delta FROM journal")
		m.b.must(err)
		for rows.Next() {
			var tx string
			var e entry
			m.b.must(rows.Scan(&tx, &e.account, &e.delta))
			if found[tx] == nil {
				found[tx] = map[string]entry{}
			}
			found[tx][place] = e
		}
		m.b.must(errors.Join(rows.Err(), rows.Close()))
	}
	if want := int64(len(m.readers) * accounts * openingBalance); total != want {
		t.Errorf("there is %d in all places together, want %d", total, want)
	}
	wrong := 0
	for _, tr := range all {
		if why := tr.check(found[tr.id.String()]); why != "" {
			if wrong++; wrong <= 10 {
				t.Errorf("%v (%s), of which its caller was told %q (%v): %s", tr.id, tr.kind, tr.outcome, tr.err, why)
			}
		}
		delete(found, tr.id.String())
	}
	if wrong > 0 || len(found) > 0 {
		t.Errorf("%d transfers are wrong, and %d are in the journals that nobody made", wrong, len(found))
	}
	inDoubt, err := m.b.nodes[0].m.Admin().InDoubts(ctx)
	if err != nil || len(inDoubt) > 0 {
		t.Errorf("nobody did anything by hand, and there are doubts: %+v, %v", inDoubt, err)
	}
}
