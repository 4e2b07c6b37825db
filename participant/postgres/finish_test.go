package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"pgregory.net/rapid"

	"github.com/txmgr/txmgr/internal/testdb"
	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/postgres/internal/sqlstate"
	"github.com/txmgr/txmgr/participant/postgres/internal/sqltext"
	"github.com/txmgr/txmgr/txn"
)

func literalXID(s SessionRef) string { return strconv.FormatUint(s.XID, 10) }

// prepared returns a branch that ran a statement and voted yes.
func (b *bank) prepared(t testing.TB, sql string, args ...any) participant.Branch {
	t.Helper()
	br := newBranch()
	w := b.work(t, br.XID, sql, args...)
	defer w.Release()
	vote, err := w.Prepare(t.Context())
	if vote != txn.VotePrepared {
		t.Fatal(vote, err)
	}
	br.Vote, br.SessionRef = vote, w.sessionRef.String()
	return br
}

// TestTwoDatabasesInOneCluster: pg_prepared_xacts lists all databases of a server,
// and only the right one can finish a branch.
func TestTwoDatabasesInOneCluster(t *testing.T) {
	right, wrong := newBank(t), newBank(t)
	atRight, atWrong := right.opened(t, nil), wrong.opened(t, nil)
	br := right.prepared(t, "INSERT INTO account VALUES ('alice', 1)")
	for name, do := range map[string]func(context.Context, participant.Branch) (participant.Result, error){"commit": atWrong.Commit, "rollback": atWrong.Rollback} {
		if r, err := do(t.Context(), br); err == nil || !strings.Contains(err.Error(), "register that database") {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	if list, err := atWrong.Prepared(t.Context(), txn.ClusterPrefix("test")); err != nil || len(list) != 0 {
		t.Errorf("lists branches of another database: %v, %v", list, err)
	}
	list, err := atRight.Prepared(t.Context(), txn.ClusterPrefix("test"))
	if err != nil || len(list) != 1 || list[0].XID != br.XID || list[0].Owner != "user postgres, database "+right.name || list[0].Since.IsZero() || list[0].Age <= 0 || list[0].Age > time.Hour {
		t.Errorf("got %v, %v", list, err)
	}
	all, err := atWrong.(participant.LockInspector).InspectLocks(t.Context())
	if err != nil || len(all) != 1 || all[0].XID != br.XID || all[0].Owner != list[0].Owner {
		t.Errorf("InspectLocks of the server has %v, %v", all, err)
	}
	report, err := atWrong.(participant.Inspector).Inspect(t.Context(), br)
	if err != nil || !report.Prepared || !strings.Contains(report.Detail, "register that database") {
		t.Errorf("got %v, %v", report, err)
	}
	d := healthCheck(t, atWrong, "databases")
	if d.Level != participant.OK || !strings.Contains(d.Message, "1 in "+right.name) {
		t.Errorf("got %+v", d)
	}
	r, err := atRight.Commit(t.Context(), br)
	wantEnd(t, r, err, participant.Committed)
}

// TestSessionOfAnotherServerProvesNothing: transaction numbers of two servers are unrelated.
func TestSessionOfAnotherServerProvesNothing(t *testing.T) {
	bank := newBank(t)
	p := bank.opened(t, nil)
	done := bank.prepared(t, "INSERT INTO account VALUES ('alice', 1)")
	_, err := p.Commit(t.Context(), done)
	check(t, err)
	s, err := ParseSessionRef(done.SessionRef)
	check(t, err)
	s.System++
	br := newBranch()
	br.SessionRef = s.String()
	for name, do := range map[string]func(context.Context, participant.Branch) (participant.Result, error){"commit": p.Commit, "rollback": p.Rollback} {
		if r, err := do(t.Context(), br); err == nil || !strings.Contains(err.Error(), "is to another server") {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
}

// TestCommitOfABranchThatHasEnded: the outcomes if the branch is not prepared any more.
func TestCommitOfABranchThatHasEnded(t *testing.T) {
	bank := newBank(t)
	p := bank.opened(t, nil)
	committed := bank.prepared(t, "INSERT INTO account VALUES ('alice', 1)")
	check(t, finishPrepared(t.Context(), bank.pool, commitPrepared, committed.XID))
	aborted := bank.prepared(t, "INSERT INTO account VALUES ('bob', 1)")
	check(t, finishPrepared(t.Context(), bank.pool, rollbackPrepared, aborted.XID))
	future, err := ParseSessionRef(committed.SessionRef)
	check(t, err)
	future.XID += 1 << 40
	for _, c := range []struct {
		name   string
		branch participant.Branch
		want   participant.BranchOutcome
		detail string
	}{
		{"proved committed", participant.Branch{SessionRef: committed.SessionRef}, participant.Committed, "pg_xact_status"},
		{"proved aborted", participant.Branch{SessionRef: aborted.SessionRef}, participant.RolledBack, "pg_xact_status"},
		{"proved aborted beats a lost answer", participant.Branch{SessionRef: aborted.SessionRef, Attempts: 3, ClientCompletes: true}, participant.RolledBack, "pg_xact_status"},
		{"no session, first attempt", participant.Branch{}, participant.Unknown, "no session reference is recorded"},
		{"no session, an answer was lost", participant.Branch{Attempts: 1}, participant.Unknown, "an attempt whose answer was lost may have"},
		{"no session, the application may have", participant.Branch{ClientCompletes: true}, participant.Unknown, "the application may have"},
		{"unreadable session", participant.Branch{SessionRef: "pid=1"}, participant.Unknown, "no session reference is recorded"},
		{"number of the future", participant.Branch{SessionRef: future.String()}, participant.Unknown, "not assigned"},
		{"number of the future, an answer was lost", participant.Branch{SessionRef: future.String(), Attempts: 1}, participant.Unknown, "not assigned"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.branch.XID = newBranch().XID
			r, err := p.Commit(t.Context(), c.branch)
			wantEnd(t, r, err, c.want)
			if !strings.Contains(r.Detail, c.detail) {
				t.Errorf("detail %q, want %q", r.Detail, c.detail)
			}
		})
	}
}

// TestErrorsSayWhetherTheAttemptCounts: a call that did not reach the server, or that the server
// refused, had no effect, and does not count as an attempt.
func TestErrorsSayWhetherTheAttemptCounts(t *testing.T) {
	bank, other := newBank(t), newBank(t)
	br := bank.prepared(t, "INSERT INTO account VALUES ('alice', 1)")
	p := bank.opened(t, nil)
	wantNone := func(name string, p participant.Participant, br participant.Branch, want bool) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for verb, do := range map[string]func(context.Context, participant.Branch) (participant.Result, error){"commit": p.Commit, "rollback": p.Rollback} {
			_, err := do(ctx, br)
			none := (*participant.NoEffectError)(nil)
			if err == nil || errors.As(err, &none) != want {
				t.Errorf("%s: %s: error %v; says that nothing was done: %v, want %v", name, verb, err, none != nil, want)
			}
		}
	}
	foreign := newBranch()
	foreign.XID = txn.XID("other", foreign.TX, 1)
	wantNone("branch of another cluster", p, foreign, true)
	wantNone("branch of another database", other.opened(t, nil), br, true)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	addr := listener.Addr().(*net.TCPAddr)
	check(t, listener.Close())
	wantNone("connection refused", bank.opened(t, map[string]string{"dsn": fmt.Sprintf("host=127.0.0.1 port=%d user=postgres dbname=bank sslmode=disable", addr.Port)}), br, true)

	check(t, p.Check(t.Context()))
	var pid int
	check(t, bank.pool.QueryRow(t.Context(), "SELECT pid FROM pg_stat_activity WHERE application_name = 'txmgr' AND datname = current_database()").Scan(&pid))
	check(t, syscall.Kill(pid, syscall.SIGSTOP))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = p.Commit(ctx, br)
	check(t, syscall.Kill(pid, syscall.SIGCONT))
	if none := (*participant.NoEffectError)(nil); err == nil || errors.As(err, &none) {
		t.Errorf("sent and not answered: error %v, says that nothing was done: %v", err, none != nil)
	}
	waittest.NoError(t, func() error {
		r, err := p.Commit(t.Context(), br)
		if err == nil && r.Outcome != participant.Committed {
			t.Errorf("ended as %v (%s)", r.Outcome, r.Detail)
		}
		return err
	})

	for code, want := range map[string]bool{sqlstate.Busy: true, sqlstate.NotAllowed: true, "57014": true, "57P01": false, "57P02": false, "57P03": false, "08006": false} {
		err := fmt.Errorf("commit: %w", &pgconn.PgError{SeverityUnlocalized: "ERROR", Code: code})
		if sqlstate.NoEffect(err) != want {
			t.Errorf("%s: %v, want %v", code, !want, want)
		}
	}
	if sqlstate.NoEffect(&pgconn.PgError{SeverityUnlocalized: "FATAL", Code: "XX000"}) || sqlstate.NoEffect(io.ErrUnexpectedEOF) || sqlstate.NoEffect(nil) {
		t.Error("a connection that ends is said to have had no effect")
	}
}

// TestServerKilledDuringPhaseTwo, repeatedly: every branch ends as reported, once.
func TestServerKilledDuringPhaseTwo(t *testing.T) {
	bank := newBank(t)
	p := bank.opened(t, nil)
	const rounds, each = 3, 24
	for round := range rounds {
		phaseTwo(t, bank, p, each, func() { crash(t) })
		if n := bank.balance(t, "total"); n != int64(each*(round+1)) {
			t.Errorf("%d of %d branches are committed", n, each*(round+1))
		}
	}
}

// TestBackendTerminatedDuringPhaseTwo: after 57P01 at any moment of COMMIT PREPARED the outcome is
// unknown, and the call is tried again.
func TestBackendTerminatedDuringPhaseTwo(t *testing.T) {
	bank := newBank(t)
	p := bank.opened(t, nil)
	terminate := func() (n int) {
		check(t, bank.pool.QueryRow(t.Context(), "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'txmgr' AND datname = current_database()").Scan(&n))
		return n
	}
	check(t, p.Check(t.Context()))
	if terminate() != 1 { // the first commit finds this one dead, however quick all are
		t.Error("the coordinator has no connection")
	}
	const each = 60
	phaseTwo(t, bank, p, each, func() {
		for range 40 {
			terminate()
		}
	})
	if n := bank.balance(t, "total"); n != each {
		t.Errorf("%d of %d branches are committed", n, each)
	}
}

// TestAdminShutdownDuringCommitPrepared: COMMIT PREPARED has happened and waits for a synchronous
// standby when its backend is terminated (57P01). The outcome is unknown then, and the next
// attempt finds the proof.
func TestAdminShutdownDuringCommitPrepared(t *testing.T) {
	s := testdb.OpenPostgres(t, testdb.PostgresConfig{NoFsync: true})
	bank := newBankOn(t, s)
	p := bank.opened(t, nil)
	br := bank.prepared(t, "INSERT INTO account VALUES ('alice', 1)")
	standby := func(names string) {
		t.Helper()
		bank.exec(t, "ALTER SYSTEM SET synchronous_standby_names = '"+names+"'")
		bank.exec(t, "SELECT pg_reload_conf()")
		waittest.NoError(t, func() error {
			var now string
			check(t, bank.pool.QueryRow(t.Context(), "SELECT current_setting('synchronous_standby_names')").Scan(&now))
			if now != names {
				return fmt.Errorf("the server has not read that it has standby %q", names)
			}
			return nil
		})
	}
	standby("nobody")
	bank.waitsForStandby(t)
	ended := make(chan error, 1)
	go func() {
		r, err := p.Commit(t.Context(), br)
		if err == nil {
			t.Errorf("it came to its end: %v", r)
		}
		ended <- err
	}()
	waittest.NoError(t, func() error {
		var n int
		check(t, bank.pool.QueryRow(t.Context(), "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE 'COMMIT PREPARED%'").Scan(&n))
		if n == 0 {
			return errors.New("the commit does not wait")
		}
		return nil
	})
	err := <-ended
	if none := (*participant.NoEffectError)(nil); errors.As(err, &none) {
		t.Errorf("it is said that nothing was done: %v", err)
	}
	standby("")
	br.Attempts++
	r, err := p.Commit(t.Context(), br)
	wantEnd(t, r, err, participant.Committed)
	if !strings.Contains(r.Detail, "pg_xact_status") {
		t.Errorf("detail %q", r.Detail)
	}
	if n := bank.balance(t, "alice"); n != 1 {
		t.Errorf("alice has %d", n)
	}
}

// phaseTwo prepares branches, commits them while disturb runs, and leaves in the
// account total how many of all branches are committed.
func phaseTwo(t *testing.T, bank *bank, p participant.Participant, n int, disturb func()) {
	t.Helper()
	bank.exec(t, "CREATE TABLE IF NOT EXISTS part (id text PRIMARY KEY)")
	var all []participant.Branch
	for range n {
		all = append(all, bank.prepared(t, "INSERT INTO part VALUES ($1)", newBranch().XID))
	}
	begun, ends := make(chan struct{}, n), make(chan error, n)
	var wg sync.WaitGroup
	for _, br := range all {
		wg.Go(func() {
			begun <- struct{}{}
			var r participant.Result
			waittest.NoError(t, func() (err error) {
				r, err = p.Commit(t.Context(), br)
				br.Attempts++
				return err
			})
			if r.Outcome != participant.Committed {
				ends <- fmt.Errorf("%s: %v (%s)", br.XID, r.Outcome, r.Detail)
			}
		})
	}
	for range n / 2 {
		<-begun
	}
	disturb()
	wg.Wait()
	bank.pool.Reset()
	close(ends)
	for err := range ends {
		t.Error(err)
	}
	waittest.NoError(t, func() error {
		_, err := bank.pool.Exec(t.Context(), "INSERT INTO account SELECT 'total', count(*) FROM part ON CONFLICT (id) DO UPDATE SET balance = excluded.balance")
		return err
	})
}

// TestCallsEndWhenTheParticipantIsClosed, also one that waits for a server that
// does not answer.
func TestCallsEndWhenTheParticipantIsClosed(t *testing.T) {
	bank := newBank(t)
	p := bank.open(t, nil)
	check(t, p.Check(t.Context()))
	var pid int
	check(t, bank.pool.QueryRow(t.Context(), "SELECT pid FROM pg_stat_activity WHERE application_name = 'txmgr' AND datname = current_database()").Scan(&pid))
	check(t, syscall.Kill(pid, syscall.SIGSTOP))
	ended := make(chan error, 1)
	go func() { ended <- p.Check(context.Background()) }()
	waittest.NoError(t, func() error {
		if p.(*resourceManager).pool.Stat().AcquiredConns() != 1 {
			return errors.New("it does not wait yet")
		}
		return nil
	})
	closed := make(chan error, 1)
	go func() { closed <- p.Close() }()
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "closed") {
			t.Errorf("got %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the call goes on")
	}
	check(t, syscall.Kill(pid, syscall.SIGCONT))
	check(t, <-closed)
}

// TestNamesAreQuoted with both meanings of a backslash.
func TestNamesAreQuoted(t *testing.T) {
	conn, err := pgx.Connect(t.Context(), server.DSN("postgres"))
	check(t, err)
	defer func() { check(t, conn.Close(context.Background())) }()
	for _, conforming := range []string{"on", "off"} {
		_, err := conn.Exec(t.Context(), "SET standard_conforming_strings = "+conforming+"; SET escape_string_warning = off", pgx.QueryExecModeSimpleProtocol)
		check(t, err)
		rapid.Check(t, func(rt *rapid.T) {
			want := rapid.OneOf(rapid.StringMatching(`['\\a]{0,8}`), rapid.StringOf(rapid.RuneFrom([]rune("'\\\"$;-/*\n é漢b")))).Draw(rt, "text")
			quoted, err := sqltext.Literal(want)
			if err != nil {
				rt.Fatal(err)
			}
			results, err := conn.PgConn().Exec(context.Background(), "SELECT "+quoted).ReadAll()
			if err != nil || string(results[0].Rows[0][0]) != want {
				rt.Fatalf("%q, quoted %s: %v", want, quoted, err)
			}
		})
	}
	if _, err := sqltext.Literal("a\x00b"); err == nil {
		t.Error("a zero byte is taken")
	}
	bank := newBank(t)
	for _, name := range []string{`it's`, `back\slash`, `'; DROP TABLE account; --`, `\'`, strings.Repeat("x", 199)} {
		b := bank.work(t, name, "INSERT INTO account VALUES ($1, 1)", name)
		if vote, err := b.Prepare(t.Context()); vote != txn.VotePrepared {
			t.Fatalf("%q: %v, %v", name, vote, err)
		}
		check(t, b.Commit(t.Context()))
		b.Release()
		if bank.balance(t, name) != 1 {
			t.Errorf("%q is not committed", name)
		}
	}
	b := bank.work(t, strings.Repeat("x", 200), "SELECT 1")
	if vote, err := b.Prepare(t.Context()); vote != txn.VoteNo {
		t.Errorf("a name that is too long: %v, %v", vote, err)
	}
	b.Release()
}

// TestRollbackOfABranchThatHasEnded: one that voted yes was prepared, so another client has ended
// it; without proof the outcome is unknown.
func TestRollbackOfABranchThatHasEnded(t *testing.T) {
	bank := newBank(t)
	p := bank.opened(t, nil)
	done := bank.prepared(t, "INSERT INTO account VALUES ('alice', 1)")
	check(t, finishPrepared(t.Context(), bank.pool, commitPrepared, done.XID))
	future, err := ParseSessionRef(done.SessionRef)
	check(t, err)
	future.XID += 1 << 40
	for name, c := range map[string]struct {
		branch participant.Branch
		want   participant.BranchOutcome
	}{
		"voted yes, with its session":       {participant.Branch{Vote: txn.VotePrepared, SessionRef: done.SessionRef}, participant.Committed},
		"voted yes, no session":             {participant.Branch{Vote: txn.VotePrepared}, participant.Unknown},
		"voted yes, number of the future":   {participant.Branch{Vote: txn.VotePrepared, SessionRef: future.String()}, participant.Unknown},
		"never voted, no session":           {participant.Branch{}, participant.RolledBack},
		"never voted, number of the future": {participant.Branch{SessionRef: future.String()}, participant.RolledBack},
		"restored, with its session":        {participant.Branch{BeforeRestore: true, SessionRef: done.SessionRef}, participant.Committed},
		"restored, no session":              {participant.Branch{BeforeRestore: true}, participant.Unknown},
		"restored, number of the future":    {participant.Branch{BeforeRestore: true, SessionRef: future.String()}, participant.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			c.branch.XID = newBranch().XID
			r, err := p.Rollback(t.Context(), c.branch)
			wantEnd(t, r, err, c.want)
		})
	}
}

// TestRollbackOfABranchThatNeverPrepared writes no error to the server's log, since nothing is
// wrong.
func TestRollbackOfABranchThatNeverPrepared(t *testing.T) {
	bank := newBank(t)
	p := bank.opened(t, nil)
	br := newBranch()
	w := bank.work(t, br.XID, "INSERT INTO account VALUES ('alice', 1)")
	defer w.Release()
	br.SessionRef = w.sessionRef.String()
	for _, b := range []participant.Branch{br, newBranch()} {
		r, err := p.Rollback(t.Context(), b)
		wantEnd(t, r, err, participant.RolledBack)
		if said := server.LogTail(); strings.Contains(said, b.XID) {
			t.Errorf("the rollback of a branch that is not prepared is in the server's log: %s", said)
		}
	}
}

// waitsForStandby returns when commits wait for a standby: backends read a changed setting before
// the process does that makes them wait.
func (b *bank) waitsForStandby(t *testing.T) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), b.dsn)
	check(t, err)
	defer func() { check(t, conn.Close(context.Background())) }()
	waittest.NoError(t, func() error {
		done := make(chan error, 1)
		go func() {
			_, err := conn.Exec(t.Context(), "CREATE TABLE IF NOT EXISTS probe (n int); DROP TABLE probe")
			done <- err
		}()
		for {
			select {
			case err := <-done:
				return fmt.Errorf("a commit does not wait for the standby: %w", err)
			default:
			}
			var n int
			check(t, b.pool.QueryRow(t.Context(), "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND pid = $1", conn.PgConn().PID()).Scan(&n))
			if n > 0 {
				return <-done
			}
		}
	})
}
