package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txmgr/txmgr/internal/testdb"
	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/participanttest"
	"github.com/txmgr/txmgr/participant/postgres/internal/sqlstate"
	"github.com/txmgr/txmgr/txn"
)

// pooled is a bank whose application and coordinator connect through a pooler.
func pooled(t *testing.T, mode string, size int, words string) (direct, through *bank, p participant.Participant) {
	t.Helper()
	pooler := testdb.OpenPgBouncer(t, server, testdb.PgBouncerConfig{Mode: mode, Size: size})
	direct = newBank(t)
	dsn := pooler.DSN(direct.name)
	return direct, direct.through(t, dsn+words), direct.opened(t, map[string]string{"dsn": dsn})
}

// TestPoolerIsDetected, with its mode.
func TestPoolerIsDetected(t *testing.T) {
	const subject = "pooler"
	wantHealthCheck(t, healthCheck(t, newBank(t).opened(t, nil), subject), participant.OK, "none between the coordinator and the server", "")
	for mode, c := range map[string]struct {
		level participant.HealthLevel
		found string
	}{
		"transaction": {participant.Failure, "a pooler assigns connections per transaction"},
		"statement":   {participant.Failure, "a pooler assigns connections per transaction"},
		"session":     {participant.Warning, "in session mode as far as could be determined"},
	} {
		_, _, p := pooled(t, mode, 20, "")
		wantHealthCheck(t, healthCheck(t, p, subject), c.level, c.found, "connect to the server directly")
	}
}

const noNames = "&default_query_exec_mode=exec" // no named prepared statements

// TestBranchesThroughATransactionPooler: the session reference names the server's own backend, so
// proof and fencing work as usual.
func TestBranchesThroughATransactionPooler(t *testing.T) {
	direct, through, p := pooled(t, "transaction", 20, noNames)
	check(t, p.Check(t.Context())) // it creates the marker table
	c := participanttest.NewCoordinator("test", map[string]participant.Participant{"bank": p})
	t.Cleanup(func() { c.CheckNothingPrepared(t) })
	for n := range 20 {
		err := txn.Run(t.Context(), c, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
			_, err := through.db.Exec(ctx, tx, "INSERT INTO account VALUES ($1, $2)", fmt.Sprint(n), n)
			return err
		})
		check(t, err)
	}
	br := through.prepared(t, "INSERT INTO account VALUES ('prepared', 7)")
	r, err := p.Commit(t.Context(), br)
	wantEnd(t, r, err, participant.Committed)
	r, err = p.Commit(t.Context(), br)
	wantEnd(t, r, err, participant.Committed)
	if n := direct.balance(t, "prepared"); n != 7 {
		t.Errorf("it has %d", n)
	}

	b, br := through.alone(t, "INSERT INTO account VALUES ('hangs', 1)")
	wantResolved(t, p, br, participant.RolledBack, "a barrier is in")
	direct.exec(t, "INSERT INTO account VALUES ('hangs', 2)")
	if state, err := b.CommitOnePhase(t.Context()); state == txn.BranchCommitted || err == nil {
		t.Errorf("%v, %v", state, err)
	}
	b.Release()
	b, br = through.alone(t, "INSERT INTO account VALUES ('alone', 1)")
	if state, err := b.CommitOnePhase(t.Context()); state != txn.BranchCommitted {
		t.Errorf("%v, %v", state, err)
	}
	b.Release()
	wantResolved(t, p, br, participant.Committed, "its row is in")
}

// TestNamedStatementsThroughATransactionPooler: pgx's default, named statements, fails as soon as
// a connection gets another backend.
func TestNamedStatementsThroughATransactionPooler(t *testing.T) {
	_, through, _ := pooled(t, "transaction", 2, "&pool_max_conns=1")
	work := func() error {
		b, err := beginIn(t, through.db, newBranch().XID)
		if err != nil {
			return err
		}
		defer b.Release()
		_, err = b.tx.Exec(t.Context(), "INSERT INTO account VALUES ($1, 1)", newBranch().XID)
		return errors.Join(err, b.Rollback(t.Context()))
	}
	check(t, work())
	check(t, work())
	other, err := pgx.ConnectConfig(t.Context(), through.pool.Config().ConnConfig)
	check(t, err)
	defer func() { check(t, other.Close(context.Background())) }()
	_, err = other.Exec(t.Context(), "BEGIN; SELECT 1") // takes the backend
	check(t, err)
	if err := work(); sqlstate.Of(err) != "26000" {
		t.Errorf("got %v", err)
	}
}

// TestPhaseTwoBehindItsOwnWaiters: a prepared branch has locked a row, and as many clients wait
// for it as the pooler has connections. In session mode, the branch still has its own connection.
// In transaction mode the pooler has reassigned it: the commit waits for clients that wait for
// the commit.
func TestPhaseTwoBehindItsOwnWaiters(t *testing.T) {
	for mode, moves := range map[string]bool{"session": true, "transaction": false} {
		t.Run(mode, func(t *testing.T) {
			const size = 3
			direct, through, p := pooled(t, mode, size, noNames)
			direct.exec(t, "INSERT INTO account VALUES ('alice', 100)")
			br := newBranch()
			b := through.work(t, br.XID, "UPDATE account SET balance = 0")
			defer b.Release()
			if vote, err := b.Prepare(t.Context()); vote != txn.VotePrepared {
				t.Fatal(vote, err)
			}
			br.SessionRef = b.sessionRef.String()
			waiting, enough := size, fmt.Errorf("not all connections wait")
			if mode == "session" {
				waiting-- // one is the branch's
			}
			ctx, cancel := context.WithCancel(t.Context())
			over := make(chan error, waiting)
			for range waiting {
				go func() { over <- waitForRow(ctx, through.pool) }()
			}
			waittest.NoError(t, func() error {
				var n int
				check(t, direct.pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()").Scan(&n))
				if n < waiting {
					return enough
				}
				return nil
			})
			patience, stop := context.WithTimeout(t.Context(), time.Second)
			defer stop()
			err := b.Commit(patience)
			if (err == nil) != moves {
				t.Errorf("the application's commit: %v", err)
			}
			if !moves {
				if r, err := p.Commit(patience, br); err == nil {
					t.Errorf("the coordinator's commit: %v", r)
				}
				// Connected to the server itself, it can.
				r, err := direct.opened(t, nil).Commit(t.Context(), br)
				wantEnd(t, r, err, participant.Committed)
			}
			for range waiting {
				if err := <-over; err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}
			cancel()
		})
	}
}

func waitForRow(ctx context.Context, pool *pgxpool.Pool) error {
	_, err := pool.Exec(ctx, "UPDATE account SET balance = balance + 1")
	return err
}
