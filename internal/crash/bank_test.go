package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/internal/testdb"
	"github.com/txmgr/txmgr/participant/postgres"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

var (
	binary      string           // txmgr with failpoints
	left, right *testdb.Postgres // two servers, so that one can hang alone
)

func TestMain(m *testing.M) {
	if os.Getenv(sessionClientAddress) != "" {
		os.Exit(runSessionClient())
	}
	if os.Getenv(applicationAddress) != "" {
		os.Exit(runApplication())
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "txmgr-crash-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	binary = filepath.Join(dir, "txmgr")
	build := exec.Command("go", "build", "-tags", "failpoint", "-o", binary, "github.com/txmgr/txmgr/cmd/txmgr")
	if out, err := build.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("building txmgr: %w\n%s", err, out)
	}
	for _, p := range []**testdb.Postgres{&left, &right} {
		if *p, err = testdb.StartPostgres(context.Background(), testdb.PostgresConfig{}); err != nil {
			return 1, err
		}
		defer func() { err = errors.Join(err, (*p).Close()) }()
	}
	return m.Run(), nil
}

// bank is money in two databases on two servers, registered with a coordinator.
type bank struct {
	t    *testing.T
	c    *coordinator
	m    *client.Client
	dsn  map[string]string // by participant: "left", "right"
	work map[string]*pgx.Conn
}

const total = 200

func newBank(t *testing.T, c *coordinator) *bank {
	b := &bank{t: t, c: c, m: c.dial(), dsn: map[string]string{}, work: map[string]*pgx.Conn{}}
	for name, p := range map[string]*testdb.Postgres{"left": left, "right": right} {
		b.dsn[name] = p.DSN(p.NewDatabase(t, "bank"))
		conn := b.connect(name)
		b.exec(conn, "CREATE TABLE account (id int PRIMARY KEY, balance int CHECK (balance >= 0))")
		b.exec(conn, "INSERT INTO account VALUES (1, 100)")
		// Of another application, never to be changed.
		b.exec(conn, "CREATE TABLE foreign_work (id int)")
		b.exec(conn, "BEGIN")
		b.exec(conn, "INSERT INTO foreign_work VALUES (1)")
		b.exec(conn, fmt.Sprintf("PREPARE TRANSACTION 'foreign_%s'", filepath.Base(b.dsn[name])))
		b.work[name] = conn
		err := b.m.Admin().AddParticipant(t.Context(), admin.Participant{Name: name, Kind: "postgres", Settings: map[string]string{"dsn": b.dsn[name]}}, "", "")
		if err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func (b *bank) connect(name string) *pgx.Conn {
	b.t.Helper()
	conn, err := pgx.Connect(b.t.Context(), b.dsn[name])
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func (b *bank) exec(conn *pgx.Conn, sql string) {
	b.t.Helper()
	if _, err := conn.Exec(b.t.Context(), sql); err != nil {
		b.t.Fatalf("%s: %v", sql, err)
	}
}

// transfer moves 10 from left to right and prepares manually, so that phase two is the
// coordinator's. before is called between the prepares and the commit.
func (b *bank) transfer(ctx context.Context, id txn.ID, timeout time.Duration, before func()) error {
	if _, err := b.m.Begin(ctx, txn.Options{ID: id, Name: "transfer", Timeout: timeout}); err != nil {
		return err
	}
	var votes []txn.BranchVote
	for _, step := range []struct{ at, sql string }{
		{"left", "UPDATE account SET balance = balance - 10 WHERE id = 1"},
		{"right", "UPDATE account SET balance = balance + 10 WHERE id = 1"},
	} {
		branch, err := b.prepare(ctx, id, step.at, step.sql)
		if err != nil {
			return err
		}
		votes = append(votes, txn.BranchVote{Branch: branch, Vote: txn.VotePrepared})
	}
	if before != nil {
		before()
	}
	_, err := b.m.Commit(ctx, id, txn.CommitRequest{Votes: votes})
	return err
}

func (b *bank) prepare(ctx context.Context, id txn.ID, at, sql string) (txn.BranchID, error) {
	branch, err := b.enlist(ctx, id, at, sql)
	if err != nil {
		return 0, err
	}
	tag, err := b.work[at].Exec(ctx, "PREPARE TRANSACTION '"+branch.XID+"'")
	if err == nil && tag.String() != "PREPARE TRANSACTION" {
		err = fmt.Errorf("PREPARE TRANSACTION answered %s", tag)
	}
	return branch.ID, err
}

// enlist does the work of a branch and leaves it unprepared.
func (b *bank) enlist(ctx context.Context, id txn.ID, at, sql string) (branch txn.Branch, err error) {
	conn := b.work[at]
	if _, err := conn.Exec(ctx, "BEGIN"); err != nil {
		return branch, err
	}
	var s postgres.SessionRef
	const who = `SELECT pg_backend_pid(), pg_current_xact_id()::text::bigint, (SELECT system_identifier FROM pg_control_system()),
		(SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid())`
	if err := conn.QueryRow(ctx, who).Scan(&s.PID, &s.XID, &s.System, &s.Start); err != nil {
		return branch, err
	}
	if branch, err = b.m.Enlist(ctx, id, txn.Enlistment{Participant: at, SessionRef: s.String()}); err != nil {
		return branch, err
	}
	_, err = conn.Exec(ctx, sql)
	return branch, err
}

// state reads the contents of the databases.
func (b *bank) state(ctx context.Context) (balances [2]int, prepared, foreign int, err error) {
	for i, name := range []string{"left", "right"} {
		conn, err := pgx.Connect(ctx, b.dsn[name])
		if err != nil {
			return balances, 0, 0, err
		}
		var p, f int
		err = errors.Join(
			conn.QueryRow(ctx, "SELECT balance FROM account WHERE id = 1").Scan(&balances[i]),
			conn.QueryRow(ctx, "SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database() AND gid LIKE 'txm%'").Scan(&p),
			conn.QueryRow(ctx, "SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database() AND gid LIKE 'foreign%'").Scan(&f),
			conn.Close(ctx),
		)
		if err != nil {
			return balances, 0, 0, err
		}
		prepared, foreign = prepared+p, foreign+f
	}
	return balances, prepared, foreign, nil
}

// awaitFinished waits until the transaction has ended and nothing of this cluster is prepared, and
// checks that the databases and the coordinator agree.
func (b *bank) awaitFinished(id txn.ID, known bool) txn.State {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), waitTimeout)
	defer cancel()
	info, err := b.m.Wait(ctx, id, txn.UntilFinished)
	if errors.Is(err, txn.ErrNotFound) && !known {
		info.State = txn.RolledBack // it never began
	} else if err != nil {
		b.t.Fatalf("waiting for the end: %v (%+v)", err, info)
	}
	if info.Heuristic != 0 {
		b.t.Errorf("heuristic %v: %+v", info.Heuristic, info.Branches)
	}
	want := [2]int{100, 100}
	if info.State == txn.Committed {
		want = [2]int{90, 110}
	}
	eventually(b.t, ctx, "nothing left prepared", func() error {
		balances, prepared, foreign, err := b.state(ctx)
		switch {
		case err != nil:
			return err
		case foreign != 2:
			b.t.Fatalf("%d foreign prepared transactions are left of 2", foreign)
		case prepared > 0:
			return fmt.Errorf("%d are prepared", prepared)
		case balances[0]+balances[1] != total || balances != want:
			return fmt.Errorf("balances are %v, want %v: the transaction is %v", balances, want, info.State)
		}
		return nil
	})
	return info.State
}
