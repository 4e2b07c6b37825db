package postgres

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txmgr/txmgr/internal/testdb"
	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

func noStatistics(s *SessionRef) { s.Recovered = time.Time{} }

// resetStatistics is what monitoring may do at any time.
func (b *bank) resetStatistics(t *testing.T) {
	t.Helper()
	b.exec(t, "SELECT pg_stat_reset_shared('archiver')")
}

// typedCommit is a branch that the application committed on the connection itself.
func (b *bank) typedCommit(t *testing.T, meanwhile func()) participant.Branch {
	t.Helper()
	w, br := b.alone(t, "INSERT INTO account VALUES (gen_random_uuid()::text, 1)")
	defer w.Release()
	meanwhile()
	_, err := w.conn.Conn().PgConn().Exec(t.Context(), "COMMIT").ReadAll()
	check(t, err)
	return br
}

// TestStatisticsResetIsNoRecovery: on a server that has recovered before, a reset of its
// statistics loses no proof, whether it was before, during or after the branch's work.
func TestStatisticsResetIsNoRecovery(t *testing.T) {
	for name, recovered := range map[string]func(*testing.T) *bank{
		"from a crash": func(t *testing.T) *bank {
			s := startPostgres(t)
			check(t, s.Kill(t.Context()))
			check(t, s.Start(t.Context()))
			return newBankOn(t, s)
		},
		"by a promotion": func(t *testing.T) *bank {
			c := newPair(t)
			c.failOver(t)
			return c.promoted
		},
	} {
		t.Run(name, func(t *testing.T) {
			bank := recovered(t)
			p := bank.opened(t, nil)
			for _, when := range []string{"while", "after", "before"} { // relative to the connections that are in the pool by then
				while := func() {
					if when == "while" {
						bank.resetStatistics(t)
					}
				}
				typed := bank.typedCommit(t, while)
				single, other := bank.alone(t, "INSERT INTO account VALUES (gen_random_uuid()::text, 1)")
				voted := bank.prepared(t, "INSERT INTO account VALUES (gen_random_uuid()::text, 1)")
				while()
				check(t, finishPrepared(t.Context(), bank.pool, commitPrepared, voted.XID))
				if state, err := single.CommitOnePhase(t.Context()); state != txn.BranchCommitted {
					t.Fatal(state, err)
				}
				single.Release()
				if when == "after" {
					bank.resetStatistics(t)
				}
				for _, br := range []participant.Branch{voted, typed, other} {
					wantSaid(t, p, br, participant.Committed, "pg_xact_status")
					wantSaid(t, p, forget(t, br, noStatistics), participant.Committed, "pg_xact_status")
				}
			}
		})
	}
}

// recoveries are the ways in which a server recovers and continues.
func recoveries(s *testdb.Postgres) map[string]func(*testing.T) {
	start := func(t *testing.T) { check(t, s.Start(t.Context())) }
	backend := func(t *testing.T) { killBackendOf(t, s) }
	postmaster := func(t *testing.T) {
		check(t, s.Kill(t.Context()))
		start(t)
	}
	return map[string]func(*testing.T){
		"backend killed":       backend,
		"backends killed":      func(t *testing.T) { backend(t); backend(t) },
		"postmaster killed":    postmaster,
		"killed and restarted": func(t *testing.T) { postmaster(t); check(t, s.Stop(t.Context())); start(t) },
		"immediate shutdown": func(t *testing.T) {
			pid := s.PID()
			check(t, syscall.Kill(pid, syscall.SIGQUIT))
			waittest.NoError(t, func() error {
				if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
					return errors.New("the server is there")
				}
				return nil
			})
			check(t, s.Kill(t.Context())) // no process is left to kill
			start(t)
		},
	}
}

// killBackendOf kills one backend of a server, and returns when the server has
// noticed and recovered.
func killBackendOf(t *testing.T, s *testdb.Postgres) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), s.DSN("postgres"))
	check(t, err)
	defer pool.Close()
	var victim int
	var before time.Time
	waittest.NoError(t, func() error {
		return pool.QueryRow(t.Context(), "SELECT pg_backend_pid(), now()").Scan(&victim, &before)
	})
	check(t, syscall.Kill(victim, syscall.SIGKILL))
	waittest.NoError(t, func() error {
		var recovered bool
		err := pool.QueryRow(t.Context(), "SELECT stats_reset > $1 FROM pg_stat_archiver", before).Scan(&recovered)
		if err == nil && !recovered {
			err = errors.New("the server has not noticed")
		}
		return err
	})
}

// TestEveryRecoveryIsDetected, even if the session reference has no time of the statistics: a
// number that another transaction got in the meantime is not taken for the branch's.
func TestEveryRecoveryIsDetected(t *testing.T) {
	s := startPostgres(t)
	bank := newBankOn(t, s)
	bank.db.MarkerTable = "off" // a row would prove more; the checks below create the table
	p := bank.opened(t, nil)
	for name, recover := range recoveries(s) {
		t.Run(name, func(t *testing.T) {
			for range 5 { // the server may happen to write the number to disk
				voted := bank.prepared(t, "INSERT INTO account VALUES (gen_random_uuid()::text, 1)")
				check(t, finishPrepared(t.Context(), bank.pool, commitPrepared, voted.XID))
				b, br := bank.alone(t, "SELECT 1") // it has its number, and wrote nothing
				recover(t)
				b.Release()
				bank.pool.Reset()
				waittest.NoError(t, func() error { return p.Check(t.Context()) })
				if !bank.again(t, b.sessionRef.XID) {
					continue
				}
				bank.resetStatistics(t)
				for _, asked := range []participant.Branch{br, forget(t, br, noStatistics)} {
					wantResolved(t, p, asked, participant.Unknown, "may have assigned the number to another")
				}
				r, err := p.Commit(t.Context(), voted) // its number was on disk
				wantEnd(t, r, err, participant.Committed)
				return
			}
			t.Error("no number was assigned again")
		})
	}
}

// TestRecoveriesUnderOnePostmasterEndFurtherOn, although nothing is written between them.
func TestRecoveriesUnderOnePostmasterEndFurtherOn(t *testing.T) {
	s := startPostgres(t)
	bank := newBankOn(t, s)
	var last SessionRef
	for range 5 {
		bank.pool.Reset()
		var now SessionRef
		waittest.NoError(t, func() error {
			b, err := beginIn(t, bank.db, newBranch().XID)
			if err == nil {
				now = b.sessionRef
				err = b.Rollback(t.Context())
				b.Release()
			}
			return err
		})
		if now.Started.IsZero() || !last.Started.IsZero() && (!now.Started.Equal(last.Started) || now.Replayed <= last.Replayed) {
			t.Fatalf("session reference %v, after the recovery %v", last, now)
		}
		last = now
		killBackendOf(t, s)
		killBackendOf(t, s)
	}
}

// TestCommitByTheApplicationBeforeACrash: a branch that never voted, and that the application committed on
// the connection itself, is not taken for rolled back because the server has recovered since.
// One whose number the server lost, and another transaction got, is.
func TestCommitByTheApplicationBeforeACrash(t *testing.T) {
	s := startPostgres(t)
	bank := newBankOn(t, s)
	p := bank.opened(t, nil)
	recovered := func() {
		bank.pool.Reset()
		waittest.NoError(t, func() error { return p.Check(t.Context()) })
	}
	for name, recover := range recoveries(s) {
		t.Run(name, func(t *testing.T) {
			typed := bank.typedCommit(t, func() {})
			recover(t)
			recovered()
			r, err := p.Rollback(t.Context(), typed)
			wantEnd(t, r, err, participant.Unknown)
			if !strings.Contains(r.Detail, "may have assigned the number to another") {
				t.Errorf("the detail is %q", r.Detail)
			}
			if name != "backend killed" && name != "postmaster killed" {
				return // after a second recovery or start it is not known what the first one lost
			}
			for range 5 { // the server may happen to write the number to disk
				b, lost := bank.alone(t, "SELECT 1")
				recover(t)
				b.Release()
				recovered()
				if bank.again(t, b.sessionRef.XID) {
					r, err := p.Rollback(t.Context(), lost)
					wantEnd(t, r, err, participant.RolledBack)
					return
				}
			}
			t.Error("no number was assigned again")
		})
	}
}

// TestMarkerRowWhereTheNumberProvesNothing: after several recoveries the server's number of a branch
// may be another's. Its marker row is not.
func TestMarkerRowWhereTheNumberProvesNothing(t *testing.T) {
	s := startPostgres(t)
	bank := newBankOn(t, s).withMarkers(t)
	p := bank.opened(t, nil)
	for name, recover := range recoveries(s) {
		t.Run(name, func(t *testing.T) {
			typed := bank.typedCommit(t, func() {})
			voted := bank.prepared(t, "INSERT INTO account VALUES (gen_random_uuid()::text, 1)")
			check(t, finishPrepared(t.Context(), bank.pool, commitPrepared, voted.XID))
			open, lost := bank.alone(t, "INSERT INTO account VALUES (gen_random_uuid()::text, 1)")
			recover(t)
			open.Release()
			bank.pool.Reset()
			waittest.NoError(t, func() error { return p.Check(t.Context()) })
			number, err := ParseSessionRef(lost.SessionRef)
			check(t, err)
			if !bank.again(t, number.XID) {
				t.Log("the server had the number on disk")
			}
			recover(t) // what it lost in the first recovery, it cannot tell after the second
			bank.pool.Reset()
			waittest.NoError(t, func() error { return p.Check(t.Context()) })
			for _, c := range []struct {
				br   participant.Branch
				want participant.BranchOutcome
			}{{typed, participant.Committed}, {lost, participant.RolledBack}, {voted, participant.Committed}} {
				for _, br := range []participant.Branch{c.br, forget(t, c.br, noTimeline), forget(t, c.br, noRecovered)} {
					r, err := p.Rollback(t.Context(), br)
					wantEnd(t, r, err, c.want)
				}
			}
			r, err := p.Commit(t.Context(), forget(t, voted, noTimeline, noRecovered))
			wantEnd(t, r, err, participant.Committed)
			elsewhere := bank.opened(t, map[string]string{"commit_marker": "elsewhere"})
			r, err = elsewhere.Rollback(t.Context(), lost)
			if err != nil || r.Outcome == participant.Committed {
				t.Errorf("without the table: %+v, %v", r, err)
			}
			restored := lost
			restored.BeforeRestore = true // its row may have been removed since
			r, err = p.Rollback(t.Context(), restored)
			if err != nil || r.Outcome == participant.Committed {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

// TestStatisticsResetAndOrderlyRestart: neither value identifies the server's lifetime any more,
// so that a recovery is not excluded. It is not reported as certain either.
func TestStatisticsResetAndOrderlyRestart(t *testing.T) {
	s := startPostgres(t)
	bank := newBankOn(t, s)
	p := bank.opened(t, nil)
	typed := bank.typedCommit(t, func() {})
	voted := bank.prepared(t, "INSERT INTO account VALUES (gen_random_uuid()::text, 1)")
	check(t, finishPrepared(t.Context(), bank.pool, commitPrepared, voted.XID))
	bank.resetStatistics(t)
	check(t, s.Stop(t.Context()))
	check(t, s.Start(t.Context()))
	bank.pool.Reset()
	waittest.NoError(t, func() error { return p.Check(t.Context()) })
	r, err := p.Commit(t.Context(), voted)
	wantEnd(t, r, err, participant.Committed)
	wantResolved(t, p, typed, participant.Unknown, "it is not known whether the server has recovered")
	r, err = p.Rollback(t.Context(), typed)
	wantEnd(t, r, err, participant.Unknown)
}
