package mariadb

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"go.uber.org/goleak"

	"github.com/txmgr/txmgr/internal/testdb"
	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/mariadb/internal/xa"
	"github.com/txmgr/txmgr/participant/participanttest"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// server is shared by the tests of the package, each of which has databases of
// its own. It may run without fsync: tests kill the server, never the machine, which keeps what
// the server has written.
var server *testdb.MariaDB

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.fuzzworker"); f != nil && f.Value.String() == "true" {
		os.Exit(m.Run()) // fuzz workers need no server
	}
	var err error
	if server, err = testdb.StartMariaDB(context.Background(), testdb.MariaDBConfig{NoFsync: true}); err != nil {
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

func TestConformance(t *testing.T) { conformance(t, server) }

// TestConformanceWithBinaryLog: XA uses other parts of the server then.
func TestConformanceWithBinaryLog(t *testing.T) {
	conformance(t, testdb.OpenMariaDB(t, testdb.MariaDBConfig{Binlog: true, NoFsync: true}))
}

func conformance(t *testing.T, s *testdb.MariaDB) {
	bank := newBankOn(t, s)
	sessions := map[string]SessionRef{}
	participanttest.Run(t, participanttest.Harness{
		Cluster: "test",
		Open:    func(t *testing.T) participant.Participant { return bank.open(t, nil) },
		Work: func(t *testing.T, xid, key string, value int64) (txn.Resource, string) {
			b, err := bank.begin(t, bank.db, xid)
			if errors.Is(err, txn.ErrNotActive) {
				return refused{err}, "" // by the barrier, earlier than at the prepare
			}
			check(t, err)
			_, err = b.exec(t.Context(), "REPLACE INTO account VALUES (?, ?)", key, value)
			check(t, err)
			sessions[xid] = b.sessionRef
			return b, b.sessionRef.String()
		},
		Write: func(ctx context.Context, key string, value int64) error {
			_, err := bank.pool.ExecContext(ctx, "REPLACE INTO account VALUES (?, ?)", key, value)
			return err
		},
		Read: bank.balance,
		FinishManually: func(t *testing.T, xid string, commit bool) {
			statement := xaRollback
			if commit {
				statement = xaCommit
			}
			bank.finishManually(t, statement, xid, sessions[xid])
		},
		Restart: func(t *testing.T) {
			check(t, s.Kill(t.Context()))
			check(t, s.Start(t.Context()))
		},
	})
}

// refused is the resource of a branch that could not begin.
type refused struct{ err error }

func (r refused) Prepare(context.Context) (txn.Vote, error) { return txn.VoteNo, r.err }
func (refused) Commit(context.Context) error                { return errors.New("there is nothing to commit") }
func (refused) Rollback(context.Context) error              { return nil }
func (refused) Release()                                    {}

// bank is a database of one test.
type bank struct {
	name, dsn string
	server    *testdb.MariaDB
	pool      *sql.DB
	db        *DB
}

func newBank(t testing.TB) *bank {
	t.Helper()
	return newBankOn(t, server)
}

func newBankOn(t testing.TB, s *testdb.MariaDB) *bank {
	t.Helper()
	b := &bank{name: s.NewDatabase(t, "bank"), server: s}
	b.dsn = s.DSN(b.name)
	b.pool = openPool(t, b.dsn)
	b.db = New("bank", b.pool)
	b.exec(t, "CREATE TABLE account (id varchar(64) PRIMARY KEY, balance bigint NOT NULL CHECK (balance >= 0)) ENGINE=InnoDB")
	return b
}

func openPool(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	c, err := mysql.ParseDSN(dsn)
	check(t, err)
	c.Logger = log.New(io.Discard, "", 0) // tests break connections all the time
	connector, err := mysql.NewConnector(c)
	check(t, err)
	pool := sql.OpenDB(connector)
	t.Cleanup(func() { check(t, pool.Close()) })
	return pool
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
func (b *bank) opened(t testing.TB, settings map[string]string) *resourceManager {
	t.Helper()
	p := b.open(t, settings)
	t.Cleanup(func() { check(t, p.Close()) })
	return p.(*resourceManager)
}

// begin begins a branch.
func (b *bank) begin(t testing.TB, db *DB, xid string) (*branch, error) {
	t.Helper()
	return db.begin(t.Context(), func(context.Context, string, []byte) (txn.Branch, error) { return txn.Branch{ID: 1, XID: xid}, nil })
}

// work begins a branch and runs a statement in it.
func (b *bank) work(t testing.TB, xid, query string, args ...any) *branch {
	t.Helper()
	return b.workIn(t, b.db, xid, query, args...)
}

func (b *bank) workIn(t testing.TB, db *DB, xid, query string, args ...any) *branch {
	t.Helper()
	br, err := b.begin(t, db, xid)
	check(t, err)
	_, err = br.exec(t.Context(), query, args...)
	check(t, err)
	return br
}

// prepared returns a branch that ran a statement and voted yes, and whose connection is being
// closed.
func (b *bank) prepared(t testing.TB, query string, args ...any) participant.Branch {
	t.Helper()
	br := newName()
	w := b.work(t, br.XID, query, args...)
	defer w.Release()
	vote, err := w.Prepare(t.Context())
	if vote != txn.VotePrepared {
		t.Fatal(vote, err)
	}
	br.Vote, br.SessionRef = vote, w.sessionRef.String()
	return br
}

func (b *bank) exec(t testing.TB, query string, args ...any) {
	t.Helper()
	_, err := b.pool.ExecContext(t.Context(), query, args...)
	check(t, err)
}

// finishManually finishes a branch as an operator would who knows MariaDB: when the connection that
// prepared it has ended.
func (b *bank) finishManually(t *testing.T, statement, xid string, s SessionRef) {
	t.Helper()
	n, err := xa.ParseName(xid)
	check(t, err)
	b.waitGone(t, s.Conn)
	b.exec(t, statement+" "+n.Literal())
}

// waitGone returns when a connection has ended in the server.
func (b *bank) waitGone(t testing.TB, conn uint64) {
	t.Helper()
	waittest.NoError(t, func() error {
		var there bool
		err := b.pool.QueryRowContext(t.Context(), "SELECT EXISTS(SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = ?)", conn).Scan(&there)
		if err == nil && there {
			err = fmt.Errorf("connection %d is still there", conn)
		}
		return err
	})
}

func (b *bank) balance(t *testing.T, id string) (n int64) {
	t.Helper()
	err := b.pool.QueryRowContext(t.Context(), "SELECT balance FROM account WHERE id = ?", id).Scan(&n)
	if !errors.Is(err, sql.ErrNoRows) {
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

var branches atomic.Int64

// newName names a branch of the cluster "test".
func newName() participant.Branch {
	id := txn.NewID(time.UnixMilli(1600000000000+branches.Add(1)), [9]byte{1})
	return participant.Branch{TX: id, ID: 1, XID: txn.XID("test", id, 1)}
}

func wantEnd(t *testing.T, r participant.Result, err error, want participant.BranchOutcome) {
	t.Helper()
	if err != nil || r.Outcome != want {
		t.Errorf("ended as %v (%s), %v; want %v", r.Outcome, r.Detail, err, want)
	}
}
