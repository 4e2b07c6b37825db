package crash

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txmgr/txmgr/internal/faultproxy"
	"github.com/txmgr/txmgr/internal/testdb"
	"github.com/txmgr/txmgr/participant/postgres"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// voteHook is a branch without work, whose vote comes after all others are prepared and beforeVote
// has run.
type voteHook struct {
	beforeVote func(context.Context) error
}

func (v voteHook) Prepare(ctx context.Context) (txn.Vote, error) {
	return txn.VoteReadOnly, v.beforeVote(ctx)
}
func (voteHook) Commit(context.Context) error   { return nil }
func (voteHook) Rollback(context.Context) error { return nil }
func (voteHook) Release()                       {}

// TestFailoverThatLosesAVote: a branch has voted yes, the primary is lost, and a standby is
// promoted that had not received the prepare; another transaction gets the branch's xid and
// commits. The transaction is not reported committed without a heuristic outcome.
func TestFailoverThatLosesAVote(t *testing.T) {
	primary, err := testdb.StartPostgres(t.Context(), testdb.PostgresConfig{NoFsync: true})
	must(t, err)
	t.Cleanup(func() { must(t, primary.Close()) })
	name := primary.NewDatabase(t, "bank")
	at := func(p *testdb.Postgres) string { return fmt.Sprintf("127.0.0.1:%d", p.Port()) }
	front, err := faultproxy.New("127.0.0.1:0", at(primary))
	must(t, err)
	t.Cleanup(front.Close)
	dsn := fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", front.Address(), name)
	pool, err := pgxpool.New(t.Context(), dsn)
	must(t, err)
	t.Cleanup(pool.Close)
	exec := func(sql string) {
		t.Helper()
		_, err := pool.Exec(t.Context(), sql)
		must(t, err)
	}
	exec("CREATE TABLE account (id int PRIMARY KEY, balance int)")
	// A backup that has not been started has received nothing of what follows.
	standby, err := primary.Backup(t.Context())
	must(t, err)
	t.Cleanup(func() { must(t, standby.Close()) })

	c := newCoordinator(t)
	c.start("")
	m := c.dial()
	for _, p := range []string{"bank", "last"} {
		must(t, m.Admin().AddParticipant(t.Context(), admin.Participant{Name: p, Kind: "postgres", Settings: map[string]string{"dsn": dsn}}, "", ""))
	}
	db := postgres.New("bank", pool)
	var number uint64
	failOver := func(ctx context.Context) error {
		conn, err := pgx.Connect(ctx, primary.DSN(name))
		must(t, err)
		eventually(t, ctx, "the branch is prepared", func() error {
			return conn.QueryRow(ctx, "SELECT transaction::text::bigint FROM pg_prepared_xacts").Scan(&number)
		})
		must(t, conn.Close(ctx))
		must(t, primary.Kill(ctx))
		must(t, standby.Follow(ctx, primary, "s1"))
		must(t, standby.Promote(ctx))
		front.Redirect(at(standby))
		front.Disconnect()
		conn, err = pgx.Connect(ctx, standby.DSN(name))
		must(t, err)
		for id, got := 100, uint64(0); got < number; id++ {
			must(t, conn.QueryRow(ctx, "INSERT INTO account VALUES ($1, 0) RETURNING pg_current_xact_id()::text::bigint", id).Scan(&got))
			if got > number {
				t.Errorf("number %d was not given out again", number)
			}
		}
		return conn.Close(ctx)
	}
	var id txn.ID
	err = txn.Run(t.Context(), m, txn.Options{Timeout: 5 * time.Minute}, func(ctx context.Context, tx *txn.Tx) error {
		id = tx.ID()
		if _, err := db.Exec(ctx, tx, "INSERT INTO account VALUES (1, 100)"); err != nil {
			return err
		}
		_, err := txn.Join(ctx, tx, "last", func(ctx context.Context, enlist txn.EnlistFunc) (voteHook, error) {
			_, err := enlist(ctx, "", nil)
			return voteHook{failOver}, err
		})
		return err
	})
	must(t, err) // it was decided

	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	info, err := m.Wait(ctx, id, txn.UntilFinished)
	must(t, err)
	var rows int
	must(t, pool.QueryRow(ctx, "SELECT count(*) FROM account WHERE id = 1").Scan(&rows))
	if rows != 0 {
		t.Fatal("the branch was not lost")
	}
	if info.State != txn.Committed || info.Heuristic == 0 || info.Branches[0].Heuristic != txn.HeuristicRollback {
		t.Errorf("%v with heuristic %v: %+v; want committed with a heuristic outcome, because the branch is not there", info.State, info.Heuristic, info.Branches)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
