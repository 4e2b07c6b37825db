package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txmgr/txmgr/internal/testdb"
	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/participanttest"
	"github.com/txmgr/txmgr/txn"
)

// alone begins a branch and runs a statement in it; it returns the application's side and the
// coordinator's.
func (b *bank) alone(t testing.TB, sql string, args ...any) (*branch, participant.Branch) {
	t.Helper()
	br := newBranch()
	w := b.work(t, br.XID, sql, args...)
	br.SessionRef = w.sessionRef.String()
	return w, br
}

func resolve(t *testing.T, p participant.Participant, br participant.Branch) participant.Result {
	t.Helper()
	var r participant.Result
	waittest.NoError(t, func() (err error) {
		r, err = p.(participant.OutcomeResolver).ResolveOutcome(t.Context(), br)
		return err
	})
	return r
}

func wantResolved(t *testing.T, p participant.Participant, br participant.Branch, want participant.BranchOutcome, detail string) {
	t.Helper()
	if r := resolve(t, p, br); r.Outcome != want || !strings.Contains(r.Detail, detail) {
		t.Errorf("resolved as %v (%s); want %v, %s", r.Outcome, r.Detail, want, detail)
	}
}

// TestOnePhaseCommitThatFails: the server refuses, and the answer says why.
func TestOnePhaseCommitThatFails(t *testing.T) {
	bank := newBank(t)
	p := bank.opened(t, nil)
	bank.exec(t, "CREATE TABLE late (n int UNIQUE DEFERRABLE INITIALLY DEFERRED); INSERT INTO late VALUES (1)")
	bank.exec(t, "CREATE FUNCTION divide() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE division_by_zero; END'")
	bank.exec(t, "CREATE TABLE trap (n int); CREATE CONSTRAINT TRIGGER t AFTER INSERT ON trap DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION divide()")
	for name, c := range map[string]struct{ sql, also, why string }{
		"failed earlier":               {"SELECT 1", "SELECT 1/0", "an earlier statement failed"},
		"deferred constraint":          {"INSERT INTO late VALUES (1)", "", "late_n_key"},
		"deferred division by zero":    {"INSERT INTO trap VALUES (1)", "", "division_by_zero"},
		"temporary table is no reason": {"CREATE TEMP TABLE x (n int)", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b, br := bank.alone(t, "INSERT INTO account VALUES ($1, 1)", name)
			defer b.Release()
			_, err := b.tx.Exec(t.Context(), c.sql)
			check(t, err)
			if c.also != "" {
				_, _ = b.tx.Exec(t.Context(), c.also)
			}
			state, err := b.CommitOnePhase(t.Context())
			if c.why == "" {
				if state != txn.BranchCommitted || err != nil {
					t.Errorf("%v, %v", state, err)
				}
				wantResolved(t, p, br, participant.Committed, "committed")
				return
			}
			if state != txn.BranchRolledBack || err == nil || !strings.Contains(err.Error(), c.why) {
				t.Errorf("%v, %v; want rolled back: %s", state, err, c.why)
			}
			if status := b.conn.Conn().PgConn().TxStatus(); status != statusIdle {
				t.Errorf("the connection is in state %c", status)
			}
			wantResolved(t, p, br, participant.RolledBack, "aborted")
			if bank.balance(t, name) != 0 {
				t.Error("it is committed")
			}
		})
	}
}

// TestOnePhaseCommitIsOfTheRecordedTransaction: the application ended the transaction and began
// another, which must not be committed instead.
func TestOnePhaseCommitIsOfTheRecordedTransaction(t *testing.T) {
	bank := newBank(t)
	p := bank.opened(t, nil)
	for name, c := range map[string]struct {
		sql  string
		want participant.BranchOutcome
	}{
		"commit":                     {"COMMIT", participant.Committed},
		"commit, other work":         {"COMMIT; BEGIN; INSERT INTO account VALUES ('other', 1)", participant.Committed},
		"commit, no number":          {"COMMIT; BEGIN", participant.Committed},
		"rollback":                   {"ROLLBACK", participant.RolledBack},
		"rollback, other work":       {"ROLLBACK; BEGIN; INSERT INTO account VALUES ('other', 1)", participant.RolledBack},
		"rollback, work that failed": {"ROLLBACK; BEGIN; INSERT INTO account VALUES ('other', 1); SELECT pg_current_xact_id()", participant.RolledBack},
	} {
		t.Run(name, func(t *testing.T) {
			bank.exec(t, "DELETE FROM account")
			b, br := bank.alone(t, "INSERT INTO account VALUES ('alice', 7)")
			_, err := b.conn.Conn().PgConn().Exec(t.Context(), c.sql).ReadAll() // on the connection itself
			check(t, err)
			state, err := b.CommitOnePhase(t.Context())
			b.Release()
			if state != 0 || err == nil || !strings.Contains(err.Error(), "of the application's own") {
				t.Errorf("%v, %v", state, err)
			}
			wantResolved(t, p, br, c.want, "pg_xact_status")
			if bank.balance(t, "other") != 0 {
				t.Error("other work was committed")
			}
		})
	}
}

func TestOnePhaseOnlyWhereItCanBeProved(t *testing.T) {
	bank := newBank(t)
	b, _ := bank.alone(t, "SELECT 1")
	if b.OnePhase() {
		t.Error("without a marker row it can")
	}
	check(t, b.Rollback(t.Context()))
	b.Release()
	b, _ = bank.withMarkers(t).alone(t, "SELECT 1")
	if !b.OnePhase() {
		t.Error("with a marker row it cannot")
	}
	if vote, err := b.Prepare(t.Context()); vote != txn.VotePrepared {
		t.Fatal(vote, err)
	}
	if b.OnePhase() {
		t.Error("what is prepared can")
	}
	check(t, b.Rollback(t.Context()))
	b.Release()
	bank.db.TxOptions = pgx.TxOptions{AccessMode: pgx.ReadOnly}
	b = bank.work(t, newBranch().XID, "SELECT 1")
	defer b.Release()
	if b.OnePhase() {
		t.Error("what only reads can")
	}
	if vote, err := b.Prepare(t.Context()); vote != txn.VoteReadOnly {
		t.Error(vote, err)
	}
}

// TestOnePhaseCommitIsDurable although synchronous_commit is off: another commit of
// the same time is lost in the crash.
func TestOnePhaseCommitIsDurable(t *testing.T) {
	lazy := newLazy(t)
	for lazy.untilLost(t) {
		id := newBranch().XID
		b, br := lazy.alone(t, "INSERT INTO account VALUES ($1, 1)", id)
		if state, err := b.CommitOnePhase(t.Context()); state != txn.BranchCommitted {
			t.Fatal(state, err)
		}
		b.Release()
		lazy.crash(t)
		if n := lazy.balance(t, id); n != 1 {
			t.Errorf("a commit was lost: it has %d", n)
		}
		// The number is on disk; but it cannot be distinguished from one that was assigned again.
		p := lazy.opened(t, nil)
		wantResolved(t, p, br, participant.Unknown, "may have assigned the number to another")
		if report, err := p.(participant.Inspector).Inspect(t.Context(), br); err != nil || report.Outcome != participant.Unknown {
			t.Errorf("%v, %v", report, err)
		}
	}
}

// lazy is a bank on a server that answers before it writes to disk.
type lazy struct {
	*bank
	server *testdb.Postgres
	tries  int
}

func newLazy(t *testing.T) *lazy {
	t.Helper()
	s := testdb.OpenPostgres(t, testdb.PostgresConfig{NoFsync: true, Settings: map[string]string{"synchronous_commit": "off", "wal_writer_delay": "10000"}})
	return &lazy{bank: newBankOn(t, s), server: s}
}

// untilLost reports whether to try once more: until a crash has lost an acknowledged commit,
// without which the test shows nothing. The server may happen to write it in time.
func (l *lazy) untilLost(t *testing.T) bool {
	t.Helper()
	if l.tries > 0 && l.balance(t, fmt.Sprint("lost", l.tries)) == 0 {
		return false
	}
	if l.tries++; l.tries > 10 {
		t.Error("nothing was ever lost")
		return false
	}
	return true
}

func (l *lazy) crash(t *testing.T) {
	t.Helper()
	l.exec(t, "INSERT INTO account VALUES ($1, 1)", fmt.Sprint("lost", l.tries))
	check(t, l.server.Kill(t.Context()))
	check(t, l.server.Start(t.Context()))
	l.pool.Reset()
}

// TestOrderlyRestartKeepsTheProof: all numbers are on disk then.
func TestOrderlyRestartKeepsTheProof(t *testing.T) {
	bank := newBank(t)
	p := bank.opened(t, nil)
	b, done := bank.alone(t, "INSERT INTO account VALUES ('alice', 1)")
	if state, err := b.CommitOnePhase(t.Context()); state != txn.BranchCommitted {
		t.Fatal(state, err)
	}
	b.Release()
	b, cut := bank.alone(t, "INSERT INTO account VALUES ('bob', 1)")
	check(t, server.Stop(t.Context()))
	check(t, server.Start(t.Context()))
	b.Release()
	bank.pool.Reset()
	wantResolved(t, p, done, participant.Committed, "committed")
	wantResolved(t, p, cut, participant.RolledBack, "aborted")
	// The same holds for a branch that another client committed before.
	done.Vote = 0
	r, err := p.Rollback(t.Context(), done)
	wantEnd(t, r, err, participant.Committed)
}

// TestResolveOutcomeAfterACrash: a number that was assigned again proves nothing, unless its status proves
// that the branch's number never reached the disk.
func TestResolveOutcomeAfterACrash(t *testing.T) {
	bank := newBank(t)
	p := bank.opened(t, nil)
	for range 5 { // the server may happen to write the number to disk
		b, br := bank.alone(t, "SELECT 1") // it has its number and wrote nothing
		crash(t)
		b.Release()
		bank.pool.Reset()
		wantResolved(t, p, br, participant.RolledBack, "not assigned")
		if !bank.again(t, b.sessionRef.XID) {
			continue
		}
		wantResolved(t, p, br, participant.Unknown, "may have assigned the number to another")
		return
	}
	t.Error("no number was assigned again")
}

// TestResolveOutcomeWhileAnotherTransactionHasTheNumber: the transaction in progress is not the branch's, so its
// backend is not terminated.
func TestResolveOutcomeWhileAnotherTransactionHasTheNumber(t *testing.T) {
	bank := newBank(t)
	p := bank.opened(t, nil)
	for range 5 {
		b, br := bank.alone(t, "SELECT 1")
		crash(t)
		b.Release()
		bank.pool.Reset()
		other, _ := bank.alone(t, "INSERT INTO account VALUES ('other', 1)")
		if other.sessionRef.XID != b.sessionRef.XID {
			check(t, other.Rollback(t.Context()))
			other.Release()
			continue
		}
		wantResolved(t, p, br, participant.RolledBack, "another transaction has the number")
		report, err := p.(participant.Inspector).Inspect(t.Context(), br)
		if err != nil || report.Outcome != participant.RolledBack {
			t.Errorf("%v, %v", report, err)
		}
		if state, err := other.CommitOnePhase(t.Context()); state != txn.BranchCommitted {
			t.Errorf("the other was hurt: %v, %v", state, err)
		}
		other.Release()
		return
	}
	t.Error("no number was assigned again")
}

// TestManualStatisticsResetKeepsTheProof: the server has not recovered, and the backend exists.
func TestManualStatisticsResetKeepsTheProof(t *testing.T) {
	bank := newBank(t)
	p := bank.opened(t, nil)
	b, open := bank.alone(t, "INSERT INTO account VALUES ('alice', 1)")
	c, done := bank.alone(t, "INSERT INTO account VALUES ('bob', 1)")
	d, other := bank.alone(t, "INSERT INTO account VALUES ('carol', 1)")
	bank.exec(t, "SELECT pg_stat_reset_shared('archiver')")
	wantResolved(t, p, open, participant.RolledBack, "aborted")
	if state, err := b.CommitOnePhase(t.Context()); state == txn.BranchCommitted || err == nil {
		t.Errorf("%v, %v", state, err)
	}
	b.Release()
	if state, err := c.CommitOnePhase(t.Context()); state != txn.BranchCommitted {
		t.Errorf("%v, %v", state, err)
	}
	c.Release()
	wantResolved(t, p, done, participant.Committed, "committed")
	r, err := p.Rollback(t.Context(), other)
	wantEnd(t, r, err, participant.RolledBack)
	if vote, err := d.Prepare(t.Context()); vote == txn.VotePrepared {
		t.Errorf("the connection was not ended: %v, %v", vote, err)
	}
	d.Release()
}

// TestResolveOutcomeWithFenceOffWaits for the backend to end by itself.
func TestResolveOutcomeWithFenceOffWaits(t *testing.T) {
	bank := newBank(t)
	p := bank.opened(t, map[string]string{"fence": "off"})
	b, br := bank.alone(t, "INSERT INTO account VALUES ('alice', 1)")
	err := inTime(t, "fence=off", func(ctx context.Context) error {
		_, err := p.(participant.OutcomeResolver).ResolveOutcome(ctx, br)
		return err
	})
	if !errors.Is(err, errStillOpen) {
		t.Error(err)
	}
	resolved := make(chan participant.Result, 1)
	go func() {
		r, err := p.(participant.OutcomeResolver).ResolveOutcome(context.WithoutCancel(t.Context()), br)
		if err != nil {
			t.Error(err)
		}
		resolved <- r
	}()
	if state, err := b.CommitOnePhase(t.Context()); state != txn.BranchCommitted {
		t.Errorf("%v, %v", state, err)
	}
	b.Release()
	if r := <-resolved; r.Outcome != participant.Committed {
		t.Errorf("resolved as %v", r)
	}
}

// TestLostAnswerOfAOnePhaseCommit: the server has committed, or not; the application does not
// know, and the coordinator determines it.
func TestLostAnswerOfAOnePhaseCommit(t *testing.T) {
	bank := newBank(t)
	p := bank.opened(t, nil)
	b, br := bank.alone(t, "INSERT INTO account VALUES ('alice', 1)")
	pid := int(b.sessionRef.PID)
	check(t, syscall.Kill(pid, syscall.SIGSTOP))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	state, err := b.CommitOnePhase(ctx)
	b.Release()
	check(t, syscall.Kill(pid, syscall.SIGCONT))
	if state != 0 || err == nil {
		t.Errorf("%v, %v", state, err)
	}
	r := resolve(t, p, br)
	want := int64(0)
	if r.Outcome == participant.Committed {
		want = 1
	}
	if got := bank.balance(t, "alice"); got != want || r.Outcome != participant.Committed && r.Outcome != participant.RolledBack {
		t.Errorf("resolved as %v (%s), and alice has %d", r.Outcome, r.Detail, got)
	}
}

// TestOneDatabaseNeedsNoPrepare: a transaction with a single branch commits on a
// server without prepared transactions; and if the application crashes during the commit, the
// coordinator determines the outcome.
func TestOneDatabaseNeedsNoPrepare(t *testing.T) {
	s := testdb.OpenPostgres(t, testdb.PostgresConfig{NoFsync: true, MaxPrepared: -1})
	bank := newBankOn(t, s).withMarkers(t)
	p := bank.opened(t, nil)
	c := participanttest.NewCoordinator("test", map[string]participant.Participant{"bank": p})
	insert := func(id string) error {
		return txn.Run(t.Context(), c, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
			_, err := bank.db.Exec(ctx, tx, "INSERT INTO account VALUES ($1, 1)", id)
			return err
		})
	}
	check(t, insert("alice"))
	if n := bank.balance(t, "alice"); n != 1 || len(c.Unreported(c.Last())) != 0 {
		t.Errorf("alice has %d; left: %v", n, c.Unreported(c.Last()))
	}
	if err := insert("alice"); !errors.Is(err, txn.ErrRolledBack) {
		t.Errorf("got %v", err)
	}
	for name, commits := range map[string]bool{"bob": true, "carol": false} {
		tx, err := txn.Start(t.Context(), c, txn.Options{})
		check(t, err)
		_, err = bank.db.Exec(t.Context(), tx, "INSERT INTO account VALUES ($1, 1)", name)
		check(t, err)
		b, err := bank.db.branch(t.Context(), tx)
		check(t, err)
		_, err = c.Delegate(t.Context(), tx.ID(), 1)
		check(t, err)
		if commits {
			if state, err := b.CommitOnePhase(t.Context()); state != txn.BranchCommitted {
				t.Errorf("%v, %v", state, err)
			}
		}
		c.Recover(t, tx.ID()) // the application has crashed
		b.Release()
		if n := bank.balance(t, name); (n == 1) != commits || len(c.Unreported(tx.ID())) != 0 {
			t.Errorf("%s has %d; left: %v", name, n, c.Unreported(tx.ID()))
		}
	}
}
