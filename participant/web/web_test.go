package web

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	"go.uber.org/goleak"

	"github.com/txmgr/txmgr/internal/random"
	"github.com/txmgr/txmgr/internal/testdb"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/ledger"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// The servers are shared by the tests of the package, each of which has databases
// of its own.
var (
	pg    *testdb.Postgres
	maria *testdb.MariaDB
)

func TestMain(m *testing.M) {
	code, err := runAll(m)
	if err = errors.Join(err, goleak.Find()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runAll(m *testing.M) (code int, err error) {
	var errPG, errMaria error
	var both sync.WaitGroup
	both.Go(func() { pg, errPG = testdb.StartPostgres(context.Background(), testdb.PostgresConfig{NoFsync: true}) })
	both.Go(func() {
		maria, errMaria = testdb.StartMariaDB(context.Background(), testdb.MariaDBConfig{NoFsync: true})
	})
	both.Wait()
	if errPG == nil {
		defer func() { err = errors.Join(err, pg.Close()) }()
	}
	if errMaria == nil {
		defer func() { err = errors.Join(err, maria.Close()) }()
	}
	if err := errors.Join(errPG, errMaria); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newBranch names a branch of the cluster "test".
func newBranch() participant.Branch {
	id := random.TransactionID()
	return participant.Branch{TX: id, ID: 1, XID: txn.XID("test", id, 1), TimeLeft: time.Minute}
}

// open opens the coordinator's side of a service.
func open(settings map[string]string) (participant.Participant, error) {
	p := admin.Participant{Name: "mail", Kind: Kind, Settings: settings, CoordinatorPrepares: true}
	return Driver(context.Background(), p, "test")
}

func opened(t testing.TB, settings map[string]string) *resourceManager {
	t.Helper()
	p, err := open(settings)
	check(t, err)
	t.Cleanup(func() { check(t, p.Close()) })
	return p.(*resourceManager)
}

// serving runs a server on loopback and opens the coordinator's side of it.
func serving(t testing.TB, h http.Handler, more map[string]string) *resourceManager {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	settings := map[string]string{"url": s.URL}
	for k, v := range more {
		settings[k] = v
	}
	return opened(t, settings)
}

// work is what callbacks of the tests do: they count.
type work func(name string, n int64) error

type callbacks struct {
	prepare, commit, rollback func(ctx context.Context, do work, b Branch) error
}

// storeFixture is a store under test: the barrier and some counts in one database.
type storeFixture struct {
	handler func(callbacks, Options) http.Handler
	counts  func(t testing.TB) map[string]int64
	forget  func(t testing.TB, xid string) // deletes the row, as an operator might
	list    func(ctx context.Context, state, prefix, after string, limit int, visit func(xid, state string, since time.Time) error) error
	prune   func(ctx context.Context, before time.Time) (int, error)
	clear   func(ctx context.Context, keep string, before time.Time) (int, error)
	safely  func(ctx context.Context, olderThan time.Duration) (int, error)
}

func newStoreFixture[S any](store Store[S], do func(ctx context.Context, s S, name string, n int64) error) *storeFixture {
	adapt := func(f func(context.Context, work, Branch) error) func(context.Context, S, Branch) error {
		if f == nil {
			return nil
		}
		return func(ctx context.Context, s S, b Branch) error {
			return f(ctx, func(name string, n int64) error { return do(ctx, s, name, n) }, b)
		}
	}
	return &storeFixture{
		handler: func(c callbacks, o Options) http.Handler {
			return Handler(store, Callbacks[S]{adapt(c.prepare), adapt(c.commit), adapt(c.rollback)}, o)
		},
		list: store.List, clear: store.Prune,
		prune:  func(ctx context.Context, before time.Time) (int, error) { return pruneBefore(ctx, store, before) },
		safely: func(ctx context.Context, olderThan time.Duration) (int, error) { return Prune(ctx, store, olderThan) },
	}
}

// onEveryStore runs a test on each store.
func onEveryStore(t *testing.T, test func(t *testing.T, b *storeFixture)) {
	for name, make := range map[string]func(t testing.TB) *storeFixture{"postgres": onPostgres, "mariadb": onMariaDB, "ledger": onLedger} {
		t.Run(name, func(t *testing.T) { test(t, make(t)) })
	}
}

func onPostgres(t testing.TB) *storeFixture {
	return onSQL(t, "pgx", pg.DSN(pg.NewDatabase(t, "web")), PostgreSQL,
		"INSERT INTO counts VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET n = counts.n + excluded.n", "DELETE FROM txmgr_barrier WHERE xid = $1")
}

func onMariaDB(t testing.TB) *storeFixture {
	return onSQL(t, "mysql", maria.DSN(maria.NewDatabase(t, "web")), MariaDB,
		"INSERT INTO counts VALUES (?, ?) ON DUPLICATE KEY UPDATE n = n + VALUES(n)", "DELETE FROM txmgr_barrier WHERE xid = ?")
}

func onSQL(t testing.TB, driver, dsn string, d Dialect, add, forget string) *storeFixture {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	check(t, err)
	t.Cleanup(func() { check(t, db.Close()) })
	db.SetMaxOpenConns(8)
	_, err = db.Exec("CREATE TABLE counts (name varchar(64) PRIMARY KEY, n bigint NOT NULL CHECK (n >= 0))")
	check(t, err)
	b := newStoreFixture(SQL(db, d, ""), func(ctx context.Context, tx *sql.Tx, name string, n int64) error {
		_, err := tx.ExecContext(ctx, add, name, n)
		return err
	})
	b.counts = func(t testing.TB) map[string]int64 {
		t.Helper()
		rows, err := db.Query("SELECT name, n FROM counts")
		check(t, err)
		defer rows.Close()
		all := map[string]int64{}
		for rows.Next() {
			var name string
			var n int64
			check(t, rows.Scan(&name, &n))
			all[name] = n
		}
		check(t, rows.Err())
		return all
	}
	b.forget = func(t testing.TB, xid string) {
		t.Helper()
		r, err := db.Exec(forget, xid)
		check(t, err)
		if n, err := r.RowsAffected(); n != 1 || err != nil {
			t.Fatalf("forgot %d rows, %v", n, err)
		}
	}
	return b
}

func onLedger(t testing.TB) *storeFixture {
	l := ledger.New("web", filepath.Join(t.TempDir(), "ledger"))
	b := newStoreFixture(l.Barrier(), func(ctx context.Context, w *ledger.Work, name string, n int64) error { return w.Add(ctx, name, n) })
	b.counts = func(t testing.TB) map[string]int64 {
		t.Helper()
		all, err := l.Balances(t.Context())
		check(t, err)
		return all
	}
	b.forget = func(t testing.TB, xid string) {
		t.Helper()
		// The file cannot be edited: it prunes all rows older than an hour from now.
		n, err := b.clear(t.Context(), "none", time.Now().Add(time.Hour))
		check(t, err)
		if n == 0 {
			t.Fatal("forgot nothing")
		}
	}
	return b
}

func noEffect(err error) bool {
	none := (*participant.NoEffectError)(nil)
	return errors.As(err, &none)
}
