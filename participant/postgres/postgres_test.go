package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/txmgr/txmgr/internal/testdb"
	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/participanttest"
	"github.com/txmgr/txmgr/participant/postgres/internal/markertable"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// server is shared by the tests of the package, each of which has databases of
// its own. It may run without fsync: tests kill the server, never the machine, which keeps what
// the server has written.
var server *testdb.Postgres

func TestMain(m *testing.M) {
	var err error
	if server, err = testdb.StartPostgres(context.Background(), testdb.PostgresConfig{NoFsync: true}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := errors.Join(server.Close(), goleak.Find()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func TestConformance(t *testing.T) {
	bank := newBank(t).withMarkers(t)
	others := bank.through(t, bank.dsn)
	participanttest.Run(t, participanttest.Harness{
		Cluster: "test",
		Open:    func(t *testing.T) participant.Participant { return bank.open(t, nil) },
		Work: func(t *testing.T, xid, key string, value int64) (txn.Resource, string) {
			// A backend may be terminated in the pool, if its branch was resolved at the instant
			// of its end.
			var b *branch
			waittest.NoError(t, func() (err error) { b, err = beginIn(t, bank.db, xid); return err })
			_, err := b.tx.Exec(t.Context(), "INSERT INTO account VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET balance = $2", key, value)
			check(t, err)
			return b, b.sessionRef.String()
		},
		Write: func(ctx context.Context, key string, value int64) error {
			_, err := others.pool.Exec(ctx, "INSERT INTO account VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET balance = $2", key, value)
			return err
		},
		Read: others.balance,
		FinishManually: func(t *testing.T, xid string, commit bool) {
			statement := rollbackPrepared
			if commit {
				statement = commitPrepared
			}
			check(t, finishPrepared(t.Context(), others.pool, statement, xid))
		},
		Restart: func(t *testing.T) {
			crash(t)
			bank.pool.Reset()
			others.pool.Reset()
		},
	})
}

// bank is a database of one test.
type bank struct {
	name, dsn string
	pool      *pgxpool.Pool
	db        *DB
}

func newBank(t testing.TB) *bank {
	t.Helper()
	return newBankOn(t, server)
}

func newBankOn(t testing.TB, s *testdb.Postgres) *bank {
	t.Helper()
	name := s.NewDatabase(t, "bank")
	b := (&bank{name: name, dsn: s.DSN(name)}).through(t, s.DSN(name))
	b.exec(t, "CREATE TABLE account (id text PRIMARY KEY, balance bigint NOT NULL CHECK (balance >= 0))")
	return b
}

// through returns the same database with another pool.
func (b *bank) through(t testing.TB, dsn string) *bank {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), dsn)
	check(t, err)
	t.Cleanup(pool.Close)
	return &bank{name: b.name, dsn: b.dsn, pool: pool, db: New("bank", pool)}
}

// withMarkers creates the marker table, as the coordinator does at a registration: branches that
// begin from now on write a row.
func (b *bank) withMarkers(t testing.TB) *bank {
	t.Helper()
	_, err := markertable.Table(markertable.Default).Ensure(t.Context(), b.pool)
	check(t, err)
	b.db.forgetMarkers()
	return b
}

// open opens the coordinator's side with further settings.
func (b *bank) open(t testing.TB, settings map[string]string) participant.Participant {
	t.Helper()
	all := map[string]string{"dsn": b.dsn}
	for k, v := range settings {
		all[k] = v
	}
	p, err := Driver(t.Context(), admin.Participant{Name: "bank", Kind: Kind, Settings: all}, "test")
	check(t, err)
	return p
}

// opened is open for a test that does not close the participant itself.
func (b *bank) opened(t testing.TB, settings map[string]string) participant.Participant {
	t.Helper()
	p := b.open(t, settings)
	t.Cleanup(func() { check(t, p.Close()) })
	return p
}

// work begins a branch and runs a statement in it.
func (b *bank) work(t testing.TB, xid, sql string, args ...any) *branch {
	t.Helper()
	return workIn(t, b.db, xid, sql, args...)
}

// beginIn begins a branch.
func beginIn(t testing.TB, db *DB, xid string) (*branch, error) {
	return db.begin(t.Context(), xid, time.Minute, func(context.Context, string, []byte) (txn.Branch, error) { return txn.Branch{ID: 1, XID: xid}, nil })
}

func workIn(t testing.TB, db *DB, xid, sql string, args ...any) *branch {
	t.Helper()
	br, err := beginIn(t, db, xid)
	check(t, err)
	_, err = br.tx.Exec(t.Context(), sql, args...)
	check(t, err)
	return br
}

func (b *bank) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	_, err := b.pool.Exec(t.Context(), sql, args...)
	check(t, err)
}

func (b *bank) balance(t *testing.T, id string) (n int64) {
	t.Helper()
	err := b.pool.QueryRow(t.Context(), "SELECT balance FROM account WHERE id = $1", id).Scan(&n)
	if !errors.Is(err, pgx.ErrNoRows) {
		check(t, err)
	}
	return n
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// crash kills the shared server and starts it again.
func crash(t *testing.T) {
	t.Helper()
	check(t, server.Kill(t.Context()))
	check(t, server.Start(t.Context()))
}

var branches int

// newBranch names a branch of the cluster "test".
func newBranch() participant.Branch {
	branches++
	id := txn.NewID(time.UnixMilli(1600000000000+int64(branches)), [9]byte{1})
	return participant.Branch{TX: id, ID: 1, XID: txn.XID("test", id, 1)}
}

func wantEnd(t *testing.T, r participant.Result, err error, want participant.BranchOutcome) {
	t.Helper()
	if err != nil || r.Outcome != want {
		t.Errorf("ended as %v (%s), %v; want %v", r.Outcome, r.Detail, err, want)
	}
}

// inTime makes a call that continues until its context ends, and wants a text in its error. A
// context of 200 ms is enough; on a machine that is too busy for one query in that time the call
// is repeated with twice as much.
func inTime(t *testing.T, want string, call func(context.Context) error) (err error) {
	t.Helper()
	for d := 200 * time.Millisecond; d < time.Minute; d *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		err = call(ctx)
		cancel()
		if err == nil {
			t.Error("no error")
			return nil
		}
		if strings.Contains(err.Error(), want) {
			return err
		}
	}
	t.Errorf("%v; want %s", err, want)
	return err
}
