package crash

import (
	"context"
	sqldb "database/sql"
	"errors"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/participant/postgres"
	"github.com/txmgr/txmgr/participant/web"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// execUnguarded runs texts, with | between them, on the branch's connection, past [postgres.DB], as
// a library may do.
func execUnguarded(ctx context.Context, db *postgres.DB, tx *txn.Tx, sql string) error {
	ptx, err := db.Tx(ctx, tx)
	for text := range strings.SplitSeq(sql, "|") {
		if err == nil {
			_, err = ptx.Conn().PgConn().Exec(ctx, text).ReadAll()
		}
	}
	return err
}

// shared is a transaction of several applications, each with a client of its own.
type shared struct {
	b        *bank
	c        *coordinator
	dbs      map[string]*postgres.DB
	id       txn.ID
	outcomes map[string]error // by application
}

func newShared(t *testing.T) *shared {
	s := &shared{c: newCoordinator(t), dbs: map[string]*postgres.DB{}, outcomes: map[string]error{}}
	s.c.start("")
	s.b = newBank(t, s.c)
	for name, dsn := range s.b.dsn {
		pool, err := pgxpool.New(t.Context(), dsn)
		must(t, err)
		t.Cleanup(pool.Close)
		s.dbs[name] = postgres.New(name, pool)
	}
	return s
}

// run has one application begin, a second one end its branch by hand, and a third one, which has
// attached before, prepare after that.
func (s *shared) run(t *testing.T, sql, way string) {
	boom := errors.New("boom")
	s.outcomes["that began it"] = txn.Run(t.Context(), s.c.dial(), txn.Options{Timeout: waitTimeout}, func(ctx context.Context, tx *txn.Tx) error {
		s.id = tx.ID()
		if _, err := s.dbs["right"].Exec(ctx, tx, "UPDATE account SET balance = balance + 10"); err != nil {
			return err
		}
		third, err := txn.Attach(ctx, s.c.dial(), s.id)
		must(t, err)
		_, s.outcomes["with the statement"] = txn.RunIn(ctx, s.c.dial(), s.id, func(ctx context.Context, tx *txn.Tx) error {
			if _, err := s.dbs["left"].Exec(ctx, tx, "UPDATE account SET balance = balance - 10"); err != nil {
				return err
			}
			if err := execUnguarded(ctx, s.dbs["left"], tx, sql); err != nil || way == "prepares" {
				return err
			}
			return boom
		})
		_, s.outcomes["that enlists late"] = third.Enlist(ctx, txn.Enlistment{Participant: "left"})
		s.outcomes["that rolls back"] = third.Rollback(ctx, "changed its mind")
		_, s.outcomes["that attaches late"] = txn.Attach(ctx, s.c.dial(), s.id)
		if way == "both fail" {
			return boom
		}
		return nil
	})
}

// ask adds the outcomes that later callers get.
func (s *shared) ask(t *testing.T, when string) {
	unary, err := client.Open(client.Config{Address: s.c.address, RequestTimeout: waitTimeout, Unary: true})
	must(t, err)
	defer unary.Close()
	for name, m := range map[string]*client.Client{"": s.c.dial(), ", unary": unary} {
		at := when + name
		_, s.outcomes["commit "+at] = m.Commit(t.Context(), s.id, txn.CommitRequest{})
		_, s.outcomes["rollback "+at] = m.Rollback(t.Context(), s.id, "late")
		o, err := m.Vote(t.Context(), s.id, txn.Votes{Votes: []txn.BranchVote{{Branch: 1, Vote: txn.VotePrepared}}})
		if s.outcomes["vote "+at] = err; !o.EndedByApplication {
			t.Errorf("vote %s: %+v", at, o)
		}
		if info, err := m.Get(t.Context(), s.id); err != nil || !info.EndedByApplication() {
			t.Errorf("get %s: %+v, %v", at, info, err)
		}
	}
}

// checkOutcomes ends the test if any application got another outcome: the coordinator that a failed
// test has started is stopped at once.
func (s *shared) checkOutcomes(t *testing.T, heuristic txn.Heuristic) {
	t.Helper()
	for who, err := range s.outcomes {
		if !errors.Is(err, txn.ErrEndedByApplication) || errors.Is(err, txn.ErrRolledBack) || txn.CodeOf(err) != txn.CodeInDoubt {
			t.Errorf("%s: it is told that %v; want %v", who, err, txn.ErrEndedByApplication)
		}
		if late := strings.Contains(who, "after"); late && errors.Is(err, txn.ErrHeuristic) != (heuristic != 0) {
			t.Errorf("%s: the heuristic outcome is %q, and it is told that %v", who, heuristic, err)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

// TestEveryApplicationIsTold: one of several applications that share a transaction ends its branch
// by its own statements. None of them gets the answer that nothing was applied, nor does a later
// caller, also after the coordinator was killed, and after a restore.
func TestEveryApplicationIsTold(t *testing.T) {
	for _, c := range []struct {
		sql, way string
		state    txn.Heuristic // of the transaction, when its branch is found
		left     int
	}{
		{"COMMIT", "prepares", txn.HeuristicMixed, 90},
		{"COMMIT", "fails", txn.HeuristicMixed, 90},
		{"ROLLBACK|UPDATE account SET balance = balance - 1", "prepares", 0, 99},
		{"ROLLBACK|UPDATE account SET balance = balance - 1", "both fail", 0, 99},
	} {
		t.Run(c.sql+", "+c.way, func(t *testing.T) {
			s := newShared(t)
			s.run(t, c.sql, c.way)
			if info, err := s.b.m.Wait(t.Context(), s.id, txn.UntilFinished); err != nil || info.State != txn.RolledBack || info.Heuristic != c.state {
				t.Errorf("%v, %v heuristic %q, %v; want %q", info.State, info.Cause, info.Heuristic, err, c.state)
			}
			s.ask(t, "afterwards")
			s.checkOutcomes(t, c.state)
			s.c.kill()
			s.c.start("")
			s.ask(t, "after a crash")
			s.checkOutcomes(t, c.state)
			s.restore(t)
			s.ask(t, "after a restore")
			s.checkOutcomes(t, c.state)
			var left int
			must(t, s.b.connect("left").QueryRow(t.Context(), "SELECT balance FROM account").Scan(&left))
			if left != c.left {
				t.Errorf("%d are left; want %d", left, c.left)
			}
		})
	}
}

// restore replaces the coordinator's state by a backup of it.
func (s *shared) restore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "backup")
	f, err := os.Create(path)
	must(t, err)
	_, err = s.c.dial().Admin().Backup(t.Context(), f)
	must(t, errors.Join(err, f.Close()))
	s.c.kill()
	must(t, os.RemoveAll(s.c.data()))
	if out, err := exec.Command(binary, "snapshot", "restore", path, "--data-dir", s.c.data()).CombinedOutput(); err != nil {
		t.Fatalf("restore: %v: %s", err, out)
	}
	s.c.start("")
}

// TestWebServiceThatEndsItsBranch: the callback of a web service commits its local transaction
// while it prepares. The application does not get the answer that nothing was applied, nor does a
// later caller, and the service is asked how the branch ended.
func TestWebServiceThatEndsItsBranch(t *testing.T) {
	for sql, c := range map[string]struct {
		hazard txn.Heuristic
		kept   int
	}{"COMMIT": {txn.HeuristicMixed, 1}, "ROLLBACK": {txn.HeuristicHazard, 0}} {
		t.Run(sql, func(t *testing.T) {
			s := newShared(t)
			db, err := sqldb.Open("pgx", left.DSN(left.NewDatabase(t, "mail")))
			must(t, err)
			t.Cleanup(func() { must(t, db.Close()) })
			_, err = db.ExecContext(t.Context(), "CREATE TABLE letter (id int)")
			must(t, err)
			service := httptest.NewServer(web.Handler(web.SQL(db, web.PostgreSQL, ""), web.Callbacks[*sqldb.Tx]{
				Prepare: func(ctx context.Context, tx *sqldb.Tx, _ web.Branch) error {
					_, err := tx.ExecContext(ctx, "INSERT INTO letter VALUES (1)")
					if err == nil {
						_, err = tx.ExecContext(ctx, sql)
					}
					return err
				},
			}, web.Options{}))
			t.Cleanup(service.Close)
			must(t, s.b.m.Admin().AddParticipant(t.Context(), admin.Participant{Name: "mail", Kind: web.Kind, CoordinatorPrepares: true, Settings: map[string]string{"url": service.URL}}, "", ""))
			s.outcomes["that began it"] = txn.Run(t.Context(), s.c.dial(), txn.Options{Timeout: waitTimeout}, func(ctx context.Context, tx *txn.Tx) error {
				s.id = tx.ID()
				if _, err := s.dbs["right"].Exec(ctx, tx, "UPDATE account SET balance = balance + 10"); err != nil {
					return err
				}
				_, err := tx.Enlist(ctx, txn.Enlistment{Participant: "mail"})
				return err
			})
			info, err := s.b.m.Wait(t.Context(), s.id, txn.UntilFinished)
			must(t, err)
			if info.State != txn.RolledBack || info.Heuristic != c.hazard {
				t.Errorf("%v, heuristic %q; want %q: %+v", info.State, info.Heuristic, c.hazard, info.Branches)
			}
			s.ask(t, "afterwards")
			s.checkOutcomes(t, c.hazard)
			var kept int
			must(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM letter").Scan(&kept))
			if kept != c.kept {
				t.Errorf("%d letters; want %d", kept, c.kept)
			}
		})
	}
}
