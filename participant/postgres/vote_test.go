package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txmgr/txmgr/internal/testdb"
	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// TestNoVotes: each of these could be mistaken for a yes, or for an error without an effect.
func TestNoVotes(t *testing.T) {
	bank := newBank(t)
	bank.exec(t, "INSERT INTO account VALUES ('alice', 100)")
	bank.exec(t, "CREATE TABLE late (n int UNIQUE DEFERRABLE INITIALLY DEFERRED); INSERT INTO late VALUES (1)")
	for name, c := range map[string]struct {
		sql  string
		also string // may fail
		why  string
	}{
		"FailedTransactionPreparesWithoutAnError": {sql: "SELECT 1", also: "SELECT 1/0", why: "an earlier statement failed"},
		"TemporaryTable":     {sql: "CREATE TEMP TABLE x (n int)", why: "operated on temporary objects"},
		"CursorWithHold":     {sql: "DECLARE c CURSOR WITH HOLD FOR SELECT 1", why: "WITH HOLD"},
		"Listen":             {sql: "LISTEN x", why: "LISTEN"},
		"Notify":             {sql: "NOTIFY x", why: "NOTIFY"},
		"ExportedSnapshot":   {sql: "SELECT pg_export_snapshot()", why: "exported snapshots"},
		"DeferredConstraint": {sql: "INSERT INTO late VALUES (1)", why: "late_n_key"},
	} {
		t.Run(name, func(t *testing.T) {
			br := newBranch()
			b := bank.work(t, br.XID, "UPDATE account SET balance = balance - 1")
			defer b.Release()
			_, err := b.tx.Exec(t.Context(), c.sql)
			check(t, err)
			if c.also != "" {
				_, _ = b.tx.Exec(t.Context(), c.also)
			}
			vote, err := b.Prepare(t.Context())
			if vote != txn.VoteNo || err == nil || !strings.Contains(err.Error(), c.why) {
				t.Errorf("voted %v, %v; want no: %s", vote, err, c.why)
			}
			// A failed prepare has rolled back already: no lock is left, and the connection can
			// return to the pool.
			if status := b.conn.Conn().PgConn().TxStatus(); status != statusIdle {
				t.Errorf("the connection is in state %c", status)
			}
			bank.exec(t, "SELECT 1 FROM account WHERE id = 'alice' FOR UPDATE NOWAIT")
			if err := b.Rollback(t.Context()); err != nil {
				t.Errorf("rollback after a no: %v", err)
			}
			p := bank.opened(t, nil)
			br.SessionRef = b.sessionRef.String()
			r, err := p.Rollback(t.Context(), br)
			wantEnd(t, r, err, participant.RolledBack)
		})
	}
	if n := bank.balance(t, "alice"); n != 100 {
		t.Errorf("alice has %d", n)
	}
}

// TestOnlyTheRightCommandTagIsAYes: answers without an error that are not a yes.
func TestOnlyTheRightCommandTagIsAYes(t *testing.T) {
	answer := func(tag string) *pgconn.Result { return &pgconn.Result{CommandTag: pgconn.NewCommandTag(tag)} }
	for name, results := range map[string][]*pgconn.Result{
		"rolled back": {answer("SELECT 1"), answer("ROLLBACK")},
		"committed":   {answer("SELECT 1"), answer("COMMIT")},
		"cut off":     {answer("SELECT 1")},
		"nothing":     nil,
	} {
		b := &branch{}
		if vote, err := b.checkPrepared(t.Context(), results); vote != txn.VoteNo || err == nil {
			t.Errorf("%s: voted %v, %v", name, vote, err)
		}
	}
}

// TestTransactionEndedByApplicationIsDetected: the application ended the transaction by SQL on the
// connection itself. Its work is committed, so the branch must neither vote yes nor report a
// rollback.
func TestTransactionEndedByApplicationIsDetected(t *testing.T) {
	bank := newBank(t)
	p := bank.opened(t, nil)
	for name, sql := range map[string]string{
		"commit":              "COMMIT",
		"commit and chain":    "COMMIT AND CHAIN",
		"commit and go on":    "COMMIT; BEGIN; INSERT INTO account VALUES ('other', 1)",
		"commit, next number": "COMMIT; BEGIN; SELECT pg_current_xact_id()",
	} {
		t.Run(name, func(t *testing.T) {
			bank.exec(t, "DELETE FROM account")
			br := newBranch()
			b := bank.work(t, br.XID, "INSERT INTO account VALUES ('alice', 7)")
			defer b.Release()
			_, err := b.conn.Conn().PgConn().Exec(t.Context(), sql).ReadAll() // on the connection itself
			check(t, err)
			vote, err := b.Prepare(t.Context())
			if vote == txn.VotePrepared || vote == txn.VoteNo || err == nil || !strings.Contains(err.Error(), "of the application's own") {
				t.Errorf("voted %v, %v", vote, err)
			}
			if err := b.Rollback(t.Context()); err == nil {
				t.Error("claims to have rolled back")
			}
			br.SessionRef = b.sessionRef.String()
			r, err := p.Rollback(t.Context(), br)
			wantEnd(t, r, err, participant.Committed) // the expected heuristic outcome
			if list, err := p.Prepared(t.Context(), ""); err != nil || len(list) != 0 {
				t.Errorf("left prepared: %v, %v", list, err)
			}
		})
	}
}

// TestNoSlotForAPreparedTransaction follows an installation: prepared transactions are off by
// default, then there are too few slots.
func TestNoSlotForAPreparedTransaction(t *testing.T) {
	s := testdb.OpenPostgres(t, testdb.PostgresConfig{MaxPrepared: -1})
	bank := newBankOn(t, s)
	p := bank.opened(t, nil)
	const fix = "ALTER SYSTEM SET max_prepared_transactions"
	if err := p.Check(t.Context()); err == nil || !strings.Contains(err.Error(), fix) {
		t.Errorf("check does not say %s: %v", fix, err)
	}
	b := bank.work(t, newBranch().XID, "INSERT INTO account VALUES ('off', 1)")
	if vote, err := b.Prepare(t.Context()); vote != txn.VoteNo || !strings.Contains(err.Error(), fix) {
		t.Errorf("voted %v, %v", vote, err)
	}
	b.Release()

	bank.exec(t, fix+" = 1")
	check(t, s.Stop(t.Context()))
	check(t, s.Start(t.Context()))
	waittest.NoError(t, func() error { return p.Check(t.Context()) })
	bank.pool.Reset()

	first := newBranch()
	b = bank.work(t, first.XID, "INSERT INTO account VALUES ('first', 1)")
	if vote, err := b.Prepare(t.Context()); vote != txn.VotePrepared {
		t.Fatal(vote, err)
	}
	b.Release()
	b = bank.work(t, newBranch().XID, "INSERT INTO account VALUES ('second', 1)")
	if vote, err := b.Prepare(t.Context()); vote != txn.VoteNo || !strings.Contains(err.Error(), "raise max_prepared_transactions") {
		t.Errorf("voted %v, %v", vote, err)
	}
	b.Release()
	r, err := p.Commit(t.Context(), first)
	wantEnd(t, r, err, participant.Committed)
	b = bank.work(t, newBranch().XID, "INSERT INTO account VALUES ('third', 1)")
	if vote, err := b.Prepare(t.Context()); vote != txn.VotePrepared {
		t.Error(vote, err)
	}
	check(t, b.Rollback(t.Context()))
	b.Release()
}

// TestEnlistedBeforeTheFirstStatement: if the enlistment fails, no work was done and the
// connection is free.
func TestEnlistedBeforeTheFirstStatement(t *testing.T) {
	bank := newBank(t)
	refused := errors.New("refused")
	_, err := bank.db.begin(t.Context(), "", time.Minute, func(ctx context.Context, session string, _ []byte) (txn.Branch, error) {
		s, err := ParseSessionRef(session)
		check(t, err)
		var status string
		var same bool
		check(t, bank.pool.QueryRow(ctx, "SELECT pg_xact_status($1::text::xid8), pg_backend_pid() = $2", literalXID(s), int32(s.PID)).Scan(&status, &same))
		if status != xactInProgress || same {
			t.Errorf("session reference %v is %s", s, status)
		}
		var statements string
		check(t, bank.pool.QueryRow(ctx, "SELECT query FROM pg_stat_activity WHERE pid = $1", int32(s.PID)).Scan(&statements))
		if !strings.Contains(statements, "pg_current_xact_id") && !strings.Contains(statements, "pg_stat_get_archiver") {
			t.Errorf("it did more: %s", statements)
		}
		return txn.Branch{}, refused
	})
	if !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
	waittest.NoError(t, func() error {
		if n := bank.pool.Stat().AcquiredConns(); n != 0 {
			return errors.New("the connection is still taken")
		}
		return nil
	})
}
