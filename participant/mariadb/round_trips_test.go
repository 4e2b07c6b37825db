package mariadb

import (
	"context"
	"database/sql"
	"net"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/txmgr/txmgr/txn"
)

// roundTrips counts how often connections have waited for an answer: a read after a write.
type roundTrips struct{ n atomic.Int64 }

// countedConn is a connection that is counted. database/sql uses it for one statement at a time.
type countedConn struct {
	net.Conn
	to      *roundTrips
	written bool
}

func (c *countedConn) Write(p []byte) (int, error) {
	c.written = true
	return c.Conn.Write(p)
}

func (c *countedConn) Read(p []byte) (int, error) {
	if c.written {
		c.to.n.Add(1)
	}
	c.written = false
	return c.Conn.Read(p)
}

// count replaces the pool of a bank by one whose round trips are counted.
func (r *roundTrips) count(t *testing.T, b *bank) {
	t.Helper()
	c, err := mysql.ParseDSN(b.dsn)
	check(t, err)
	c.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return &countedConn{Conn: conn, to: r}, err
	}
	connector, err := mysql.NewConnector(c)
	check(t, err)
	b.pool = sql.OpenDB(connector)
	b.pool.SetMaxOpenConns(1)
	t.Cleanup(func() { check(t, b.pool.Close()) })
	b.db = New(b.db.name, b.pool)
}

// want checks how many round trips there were since the last check.
func (r *roundTrips) want(t *testing.T, when string, want int64) {
	t.Helper()
	if n := r.n.Swap(0); n != want {
		t.Errorf("%s takes %d round trips, want %d", when, n, want)
	}
}

// TestRoundTrips: once a connection is known, a branch takes one round trip for each of its start,
// each statement, its vote and its end. In one phase the vote is the end.
func TestRoundTrips(t *testing.T) {
	bank, r := newBank(t), new(roundTrips)
	r.count(t, bank)
	w := bank.work(t, newName().XID, "INSERT INTO account VALUES ('alice', 100)")
	_, err := w.CommitOnePhase(t.Context())
	check(t, err)
	w.Release()
	r.n.Store(0)

	begin := func(db *DB) *branch {
		t.Helper()
		w, err := bank.begin(t, db, newName().XID)
		check(t, err)
		r.want(t, "begin", 1)
		return w
	}
	work := func(w *branch) {
		t.Helper()
		_, err := w.exec(t.Context(), "UPDATE account SET balance = balance - 1 WHERE id = 'alice'")
		check(t, err)
		r.want(t, "a statement", 1)
	}
	prepare := func(w *branch, want txn.Vote) {
		t.Helper()
		if vote, err := w.Prepare(t.Context()); vote != want || err != nil {
			t.Fatal(vote, err)
		}
		r.want(t, "prepare", 1)
	}
	release := func(w *branch) {
		t.Helper()
		w.Release()
		r.want(t, "release", 0)
	}

	w = begin(bank.db)
	work(w)
	prepare(w, txn.VotePrepared)
	check(t, w.Commit(t.Context()))
	r.want(t, "commit", 1)
	release(w)

	w = begin(bank.db)
	work(w)
	_, err = w.CommitOnePhase(t.Context())
	check(t, err)
	r.want(t, "commit in one phase", 1)
	release(w)

	w = begin(bank.db)
	work(w)
	check(t, w.Rollback(t.Context()))
	r.want(t, "rollback", 1)
	release(w)

	w = begin(bank.db)
	work(w)
	prepare(w, txn.VotePrepared)
	check(t, w.Rollback(t.Context()))
	r.want(t, "rollback of a prepared branch", 1)
	release(w)

	reads := New("bank", bank.pool)
	reads.TxOptions = sql.TxOptions{ReadOnly: true, Isolation: sql.LevelReadCommitted}
	w = begin(reads)
	check(t, w.queryRow(t.Context(), "SELECT balance FROM account WHERE id = 'alice'").Scan(new(int)))
	r.want(t, "a query", 1)
	prepare(w, txn.VoteReadOnly)
	release(w)
}
