package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txmgr/txmgr/internal/testdb"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/postgres/internal/markertable"
	"github.com/txmgr/txmgr/participant/postgres/internal/sqlstate"
	"github.com/txmgr/txmgr/txn"
)

// markerKind is what the branch's committed row says.
func (b *bank) markerKind(t *testing.T, xid string) (kind int) {
	t.Helper()
	err := b.pool.QueryRow(t.Context(), "SELECT kind FROM txmgr_branch WHERE xid = $1", xid).Scan(&kind)
	if !errors.Is(err, pgx.ErrNoRows) {
		check(t, err)
	}
	return kind
}

// TestMarkerRowBeforeTheFirstStatement: the row is written when a branch has begun, whether its
// name was known before it was enlisted or not, and belongs to the recorded transaction.
func TestMarkerRowBeforeTheFirstStatement(t *testing.T) {
	bank := newBank(t).withMarkers(t)
	for name, known := range map[string]bool{"named": true, "named at the enlistment": false} {
		t.Run(name, func(t *testing.T) {
			xid, asked := newBranch().XID, ""
			if known {
				asked = xid
			}
			b, err := bank.db.begin(t.Context(), asked, time.Minute, func(_ context.Context, session string, _ []byte) (txn.Branch, error) {
				if s, err := ParseSessionRef(session); err != nil || !s.hasMarker() {
					t.Errorf("enlisted as %v, %v", s, err)
				}
				return txn.Branch{ID: 1, XID: xid}, nil
			})
			check(t, err)
			defer b.Release()
			var kind, number string
			check(t, b.tx.QueryRow(t.Context(), "SELECT kind::text, xmin::text FROM txmgr_branch WHERE xid = $1", xid).Scan(&kind, &number))
			if kind != "1" || number != fmt.Sprint(uint32(b.sessionRef.XID)) || !b.OnePhase() {
				t.Errorf("kind %s, written by %s; session reference %v", kind, number, b.sessionRef)
			}
			if vote, err := b.Prepare(t.Context()); vote != txn.VotePrepared {
				t.Fatal(vote, err)
			}
			check(t, b.Commit(t.Context()))
			if kind := bank.markerKind(t, xid); kind != markertable.Commit {
				t.Errorf("after a commit in two phases: kind %d", kind)
			}
		})
	}
	_, err := bank.db.begin(t.Context(), newBranch().XID, time.Minute, func(context.Context, string, []byte) (txn.Branch, error) {
		return txn.Branch{ID: 2, XID: newBranch().XID}, nil
	})
	if !errors.Is(err, txn.ErrConflict) {
		t.Errorf("enlisted under another name: %v", err)
	}
}

// TestCrashInAOnePhaseCommit: the server is killed at any moment of the commit, and the outcome is
// known, and true, although the transaction's number may be assigned again.
func TestCrashInAOnePhaseCommit(t *testing.T) {
	s := testdb.OpenPostgres(t, testdb.PostgresConfig{}) // with fsync
	bank := newBankOn(t, s).withMarkers(t)
	p := bank.opened(t, nil)
	committed, lost := 0, 0
	for n := range 6 {
		id := fmt.Sprint("crash", n)
		b, br := bank.alone(t, "INSERT INTO account VALUES ($1, 1)", id)
		told := make(chan txn.BranchState, 1)
		if n%3 > 0 {
			go func() {
				state, _ := b.CommitOnePhase(context.WithoutCancel(t.Context()))
				told <- state
			}()
		} else {
			told <- 0 // it dies before its commit
		}
		<-time.After(rand.N(time.Millisecond))
		check(t, s.Kill(t.Context()))
		state := <-told
		b.Release()
		check(t, s.Start(t.Context()))
		bank.pool.Reset()
		r := resolve(t, p, br)
		want := participant.RolledBack
		if bank.balance(t, id) == 1 {
			committed++
			want = participant.Committed
		} else if lost++; state == txn.BranchCommitted {
			t.Errorf("%s was committed, and is lost", id)
		}
		if r.Outcome != want {
			t.Errorf("resolved as %v (%s), want %v", r.Outcome, r.Detail, want)
		}
		wantResolved(t, p, br, want, "")
	}
	t.Logf("%d were committed, %d not", committed, lost)
	if lost == 0 {
		t.Error("no branch was ever lost")
	}
}

// TestNumberIsNotNeeded: with a marker row the outcome is known also when the number was assigned
// again after a crash.
func TestNumberIsNotNeeded(t *testing.T) {
	bank := newBank(t).withMarkers(t)
	p := bank.opened(t, nil)
	b, br := bank.alone(t, "SELECT 1")
	crash(t)
	b.Release()
	bank.pool.Reset()
	bank.exec(t, "CREATE TABLE filler (n int)")
	for range 20 { // the numbers that were lost are assigned to these
		bank.exec(t, "INSERT INTO filler VALUES (1)")
	}
	wantResolved(t, p, br, participant.RolledBack, "a barrier is in public.txmgr_branch")
	wantResolved(t, p, br, participant.RolledBack, "a barrier is in public.txmgr_branch")
	b, br = bank.alone(t, "INSERT INTO account VALUES ('alice', 1)")
	if state, err := b.CommitOnePhase(t.Context()); state != txn.BranchCommitted {
		t.Fatal(state, err)
	}
	b.Release()
	crash(t)
	bank.pool.Reset()
	wantResolved(t, p, br, participant.Committed, "its row is in public.txmgr_branch")
	if r, err := p.(participant.Inspector).Inspect(t.Context(), br); err != nil || r.Outcome != participant.Committed {
		t.Errorf("%v, %v", r, err)
	}
}

// TestBarrierKeepsABranchFromBeginning: what was resolved as rolled back is never committed.
func TestBarrierKeepsABranchFromBeginning(t *testing.T) {
	bank := newBank(t).withMarkers(t)
	p := bank.opened(t, nil)
	b, br := bank.alone(t, "SELECT 1")
	check(t, b.Rollback(t.Context()))
	b.Release()
	wantResolved(t, p, br, participant.RolledBack, "a barrier is in")
	late, err := beginIn(t, bank.db, br.XID)
	if err == nil {
		late.Release()
	}
	if !errors.Is(err, txn.ErrNotActive) || !strings.Contains(err.Error(), "rolled the branch back already") {
		t.Errorf("begins late: %v", err)
	}
	if r, err := p.(participant.Inspector).Inspect(t.Context(), br); err != nil || r.Outcome != participant.RolledBack {
		t.Errorf("%v, %v", r, err)
	}
}

// TestConcurrentResolve: several workers, one of a leader that was deposed for example, and the
// application's commit at the same moment: all learn the same.
func TestConcurrentResolve(t *testing.T) {
	bank := newBank(t).withMarkers(t)
	seen := map[participant.BranchOutcome]int{}
	for n := range 12 {
		id := fmt.Sprint("both", n)
		b, br := bank.alone(t, "INSERT INTO account VALUES ($1, 1)", id)
		results := make([]participant.Result, 4)
		var all sync.WaitGroup
		for i := range results {
			p := bank.opened(t, nil)
			all.Go(func() { results[i] = resolve(t, p, br) })
		}
		if n%2 == 0 { // else they all begin at once
			all.Wait()
		}
		state, err := b.CommitOnePhase(t.Context())
		all.Wait()
		b.Release()
		want := participant.RolledBack
		if bank.balance(t, id) == 1 {
			want = participant.Committed
		}
		seen[want]++
		if state == txn.BranchCommitted && want != participant.Committed || state == txn.BranchRolledBack && want != participant.RolledBack {
			t.Errorf("the application was told %v, %v; it is %v", state, err, want)
		}
		for _, r := range results {
			if r.Outcome != want {
				t.Errorf("resolved as %v (%s), want %v", r.Outcome, r.Detail, want)
			}
		}
	}
	if t.Logf("outcomes: %v", seen); seen[participant.RolledBack] < 6 {
		t.Error("what was resolved before the commit was committed")
	}
}

// TestReportedCommitIsOnDisk: a commit that the server answered before it wrote it to disk is not
// reported before it is there.
func TestReportedCommitIsOnDisk(t *testing.T) {
	for name, report := range map[string]func(*testing.T, participant.Participant, participant.Branch){
		"resolved": func(t *testing.T, p participant.Participant, br participant.Branch) {
			wantResolved(t, p, br, participant.Committed, "its row is in")
		},
		"read": func(t *testing.T, p participant.Participant, br participant.Branch) {
			wantRead(t, p, br, participant.Committed)
		},
	} {
		t.Run(name, func(t *testing.T) { testReportedCommitIsOnDisk(t, report) })
	}
}

func testReportedCommitIsOnDisk(t *testing.T, report func(*testing.T, participant.Participant, participant.Branch)) {
	lazy := newLazy(t)
	lazy.withMarkers(t)
	for lazy.untilLost(t) {
		id := newBranch().XID
		b, br := lazy.alone(t, "INSERT INTO account VALUES ($1, 1)", id)
		_, err := b.conn.Exec(t.Context(), "COMMIT") // of the application's own
		check(t, err)
		b.Release()
		p := lazy.open(t, nil)
		report(t, p, br)
		check(t, p.Close())
		lazy.crash(t)
		if n := lazy.balance(t, id); n != 1 {
			t.Errorf("a commit that was reported is lost: it has %d", n)
		}
	}
}

// TestMarkerRowAfterAFailover: the row is with the work, wherever that is.
func TestMarkerRowAfterAFailover(t *testing.T) {
	c := newPair(t)
	c.withMarkers(t)
	var branches []participant.Branch
	commit := func(id string) {
		b, br := c.alone(t, "INSERT INTO account VALUES ($1, 1)", id)
		if state, err := b.CommitOnePhase(t.Context()); state != txn.BranchCommitted {
			t.Fatal(state, err)
		}
		b.Release()
		branches = append(branches, br)
	}
	commit("received")
	hanging, br := c.alone(t, "INSERT INTO account VALUES ('open', 1)")
	defer hanging.Release()
	branches = append(branches, br)
	c.part(t)
	commit("lost")
	c.failOver(t)
	p := c.promoted.opened(t, nil)
	wantResolved(t, p, branches[0], participant.Committed, "its row is in")
	wantResolved(t, p, branches[1], participant.RolledBack, "a barrier is in")
	wantResolved(t, p, branches[2], participant.RolledBack, "a barrier is in")
	for id, want := range map[string]int64{"received": 1, "open": 0, "lost": 0} {
		if n := c.promoted.balance(t, id); n != want {
			t.Errorf("%s has %d, want %d", id, n, want)
		}
	}
}

// TestMarkerRowThatWasRemoved: the transaction's number proves the commit as long as it can.
func TestMarkerRowThatWasRemoved(t *testing.T) {
	bank := newBank(t).withMarkers(t)
	p := bank.opened(t, nil)
	b, br := bank.alone(t, "INSERT INTO account VALUES ('alice', 1)")
	if state, err := b.CommitOnePhase(t.Context()); state != txn.BranchCommitted {
		t.Fatal(state, err)
	}
	b.Release()
	bank.exec(t, "DELETE FROM txmgr_branch")
	wantResolved(t, p, br, participant.Committed, "pg_xact_status")
	if kind := bank.markerKind(t, br.XID); kind != markertable.None {
		t.Errorf("a barrier was written for it: kind %d", kind)
	}
}

// TestRemovedRowAfterARestore: a branch was committed and its row removed, by a coordinator that was
// then restored from a backup in which the branch has not ended. Where the number proves nothing, it is
// not reported as rolled back, nor when a call has written a barrier.
func TestRemovedRowAfterARestore(t *testing.T) {
	s := testdb.OpenPostgres(t, testdb.PostgresConfig{}) // with fsync
	bank := newBankOn(t, s).withMarkers(t)
	p := bank.opened(t, nil)
	b, br := bank.alone(t, "INSERT INTO account VALUES ('alice', 1)")
	state, err := b.CommitOnePhase(t.Context())
	if state != txn.BranchCommitted {
		t.Fatal(state, err)
	}
	b.Release()
	open, undone := bank.alone(t, "INSERT INTO account VALUES ('bob', 1)")
	check(t, open.Rollback(t.Context()))
	open.Release()
	undone.BeforeRestore = true
	wantResolved(t, p, undone, participant.RolledBack, "a barrier is in")
	wantResolved(t, p, undone, participant.RolledBack, "a barrier is in")
	bank.exec(t, "DELETE FROM txmgr_branch")
	br.BeforeRestore = true
	wantResolved(t, p, br, participant.Committed, "pg_xact_status")
	check(t, s.Kill(t.Context()))
	check(t, s.Start(t.Context()))
	bank.pool.Reset()
	for range 2 {
		if r := resolve(t, p, br); r.Outcome != participant.Unknown || !strings.Contains(r.Detail, "restored from a backup") {
			t.Errorf("resolved as %v (%s)", r.Outcome, r.Detail)
		}
		seen, err := p.(participant.Inspector).Inspect(t.Context(), br)
		if check(t, err); seen.Outcome != participant.Unknown {
			t.Errorf("inspected as %v (%s)", seen.Outcome, seen.Detail)
		}
	}
	if n := bank.balance(t, "alice"); n != 1 {
		t.Errorf("balance %d", n)
	}
}

// TestAnotherMarkerTable: nothing is concluded from a table that the application does not write to.
func TestAnotherMarkerTable(t *testing.T) {
	bank := newBank(t).withMarkers(t)
	b, br := bank.alone(t, "INSERT INTO account VALUES ('alice', 1)")
	defer b.Release()
	settle := func(p participant.Participant) error {
		_, err := p.(participant.OutcomeResolver).ResolveOutcome(t.Context(), br)
		return err
	}
	for name, c := range map[string]struct {
		p    participant.Participant
		says string
	}{
		"another database":          {newBank(t).withMarkers(t).opened(t, nil), "register the database that it uses"},
		"a database without one":    {newBank(t).opened(t, nil), "there is no marker table"},
		"another table":             {bank.opened(t, map[string]string{"commit_marker": "elsewhere"}), "there is no marker table public.elsewhere"},
		"another table that exists": {bank.opened(t, map[string]string{"commit_marker": "elsewhere2"}), "writes its marker rows to another table"},
	} {
		if strings.HasSuffix(name, "exists") {
			check(t, c.p.Check(t.Context()))
		}
		if err := settle(c.p); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; want %s", name, err, c.says)
		}
	}
	if state, err := b.CommitOnePhase(t.Context()); state != txn.BranchCommitted {
		t.Fatalf("it was touched: %v, %v", state, err)
	}
	wantResolved(t, bank.opened(t, map[string]string{"commit_marker": "off"}), br, participant.Committed, "pg_xact_status")
	bank.exec(t, "DROP TABLE txmgr_branch")
	if err := settle(bank.opened(t, nil)); err == nil || !strings.Contains(err.Error(), "or the table was dropped") {
		t.Errorf("dropped: %v", err)
	}
	if _, err := beginIn(t, bank.db, newBranch().XID); sqlstate.Of(err) != sqlstate.NoTable {
		t.Errorf("the application has the old table cached, for one attempt: %v", err)
	}
	again, err := beginIn(t, bank.db, newBranch().XID)
	check(t, err)
	defer again.Release()
	if again.OnePhase() {
		t.Error("without a table it commits in one phase")
	}
	bank.withMarkers(t)
	if err := settle(bank.opened(t, nil)); err == nil || !strings.Contains(err.Error(), "or the table was dropped since") {
		t.Errorf("created again: %v", err)
	}
}

// TestMarkerTableThatCannotBeUsed: without it branches prepare, unless it is asked for.
func TestMarkerTableThatCannotBeUsed(t *testing.T) {
	bank := newBank(t)
	user := "clerk_" + bank.name
	bank.exec(t, "CREATE ROLE "+user+" LOGIN")
	t.Cleanup(func() {
		_, err := bank.pool.Exec(context.Background(), "DROP OWNED BY "+user+"; DROP ROLE "+user)
		check(t, err)
	})
	bank.exec(t, "REVOKE CREATE ON SCHEMA public FROM PUBLIC; GRANT SELECT ON account TO "+user)
	dsn := server.DSNAs(user, bank.name)
	clerk := bank.through(t, dsn)
	begin := func(table string) (*branch, error) {
		db := New("bank", clerk.pool)
		db.MarkerTable = table
		b, err := beginIn(t, db, newBranch().XID)
		return b, err
	}
	wantTwoPhases := func(b *branch, err error) {
		t.Helper()
		check(t, err)
		defer b.Release()
		if b.OnePhase() || b.sessionRef.hasMarker() {
			t.Errorf("it writes a marker row: %v", b.sessionRef)
		}
	}
	wantError := func(err error, says string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v; want %s", err, says)
		}
	}
	const subject = "marker table"
	p := bank.opened(t, map[string]string{"dsn": dsn})
	check(t, p.Check(t.Context()))
	wantHealthCheck(t, healthCheck(t, p, subject), participant.Warning, "does not exist", "CREATE TABLE IF NOT EXISTS")
	wantTwoPhases(begin(""))
	wantTwoPhases(begin("off"))
	_, err := begin(DefaultMarkerTable)
	wantError(err, "run: CREATE TABLE IF NOT EXISTS")
	wantError(bank.opened(t, map[string]string{"dsn": dsn, "commit_marker": DefaultMarkerTable}).Check(t.Context()), "run: CREATE TABLE IF NOT EXISTS")

	cached := clerk.db
	wantTwoPhases(beginIn(t, cached, newBranch().XID))
	bank.withMarkers(t)
	wantTwoPhases(begin(""))
	_, err = begin(DefaultMarkerTable)
	wantError(err, "run: GRANT INSERT ON")
	wantError(p.Check(t.Context()), "run: GRANT SELECT, INSERT, UPDATE, DELETE ON")
	wantHealthCheck(t, healthCheck(t, p, subject), participant.Failure, "cannot be determined", "GRANT SELECT, INSERT")
	super := bank.opened(t, nil)
	held, err := clerk.pool.Acquire(t.Context()) // the other user is connected
	check(t, err)
	wantHealthCheck(t, healthCheck(t, super, subject), participant.Warning, user+" may not write to public.txmgr_branch", "GRANT INSERT ON")
	bank.exec(t, healthCheck(t, super, subject).Remedy)
	wantHealthCheck(t, healthCheck(t, super, subject), participant.OK, "public.txmgr_branch", "")
	held.Release()
	b, err := begin("")
	check(t, err)
	if !b.OnePhase() {
		t.Error("with the privilege it prepares")
	}
	b.Release()
	wantTwoPhases(beginIn(t, cached, newBranch().XID)) // it looks again some seconds later
	cached.absence = cached.absence.Add(-absenceTime)
	b, err = beginIn(t, cached, newBranch().XID)
	check(t, err)
	if b.Release(); !b.marked {
		t.Error("the table is never looked for again")
	}
	bank.exec(t, "REVOKE INSERT ON txmgr_branch FROM "+user)
	_, err = beginIn(t, cached, newBranch().XID)
	wantError(err, "run: GRANT INSERT ON")
	wantTwoPhases(beginIn(t, cached, newBranch().XID))

	db := New("bank", bank.pool)
	db.TxOptions.BeginQuery = "BEGIN READ ONLY"
	_, err = beginIn(t, db, newBranch().XID)
	wantError(err, "set TxOptions.AccessMode")
}

// TestTableOfAnotherOwner: a table that txmgr did not create is not touched.
func TestTableOfAnotherOwner(t *testing.T) {
	for _, create := range []string{
		"CREATE TABLE txmgr_branch (id int)",
		"CREATE VIEW txmgr_branch AS SELECT 1 AS xid",
		`CREATE TABLE txmgr_branch (xid text COLLATE "C", kind smallint NOT NULL, at timestamptz NOT NULL)`, // nothing makes it unique
		strings.Replace(markertable.Table(markertable.Default).Create(), "TABLE", "UNLOGGED TABLE", 1),      // a crash empties it
	} {
		bank := newBank(t)
		bank.exec(t, create)
		_, errBegin := beginIn(t, bank.db, newBranch().XID)
		for name, err := range map[string]error{"check": bank.opened(t, nil).Check(t.Context()), "begin": errBegin} {
			if err == nil || !strings.Contains(err.Error(), "was not created by txmgr") {
				t.Errorf("%s: %s: %v", create, name, err)
			}
		}
	}
}

// BenchmarkOnePhase is a transaction with one branch and one statement on a server that waits for
// its disk: by hand, in one phase with its marker row, which is removed, too, and in two phases. A
// coordinator is not asked.
func BenchmarkOnePhase(b *testing.B) {
	bank := newBankOn(b, testdb.OpenPostgres(b, testdb.PostgresConfig{})).withMarkers(b)
	p := bank.opened(b, nil).(participant.Pruner)
	over := func(_ context.Context, names []string) ([]bool, error) {
		return slices.Repeat([]bool{true}, len(names)), nil
	}
	bank.exec(b, "INSERT INTO account VALUES ('alice', 1)")
	const work = "UPDATE account SET balance = balance + 1"
	b.Run("by hand", func(b *testing.B) {
		for b.Loop() {
			check(b, pgx.BeginFunc(b.Context(), bank.pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(b.Context(), work)
				return err
			}))
		}
	})
	for name, end := range map[string]func(*branch) error{
		"one phase": func(w *branch) error { _, err := w.CommitOnePhase(b.Context()); return err },
		"two phases": func(w *branch) error {
			if _, err := w.Prepare(b.Context()); err != nil {
				return err
			}
			return w.Commit(b.Context())
		},
	} {
		b.Run(name, func(b *testing.B) {
			db, ended := New("bank", bank.pool), 0
			if name == "two phases" {
				db.MarkerTable = "off"
			}
			for b.Loop() {
				w := workIn(b, db, newBranch().XID, work)
				check(b, end(w))
				w.Release()
				if ended++; ended%1000 == 0 {
					_, err := p.Prune(b.Context(), 1000, over)
					check(b, err)
				}
			}
		})
	}
}
