package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txmgr/txmgr/internal/testdb"
	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// pair is a primary and its streaming standby.
type pair struct {
	*bank    // on the primary
	primary  *testdb.Postgres
	standby  *testdb.Postgres
	promoted *bank // on the standby, after its promotion
}

// newPair starts both. Everything so far is on the standby.
func newPair(t *testing.T) *pair {
	t.Helper()
	primary := startPostgres(t)
	c := &pair{bank: newBankOn(t, primary), primary: primary, standby: backup(t, primary)}
	check(t, c.standby.Follow(t.Context(), primary, "s1"))
	c.catchUp(t)
	return c
}

func startPostgres(t *testing.T) *testdb.Postgres {
	t.Helper()
	s, err := testdb.StartPostgres(t.Context(), testdb.PostgresConfig{NoFsync: true})
	check(t, err)
	t.Cleanup(func() { check(t, s.Close()) })
	return s
}

func backup(t *testing.T, of *testdb.Postgres) *testdb.Postgres {
	t.Helper()
	s, err := of.Backup(t.Context())
	check(t, err)
	t.Cleanup(func() { check(t, s.Close()) })
	return s
}

// catchUp waits until the standby has all that the primary has written.
func (c *pair) catchUp(t *testing.T) {
	t.Helper()
	var at string
	check(t, c.pool.QueryRow(t.Context(), "SELECT pg_current_wal_insert_lsn()::text").Scan(&at))
	c.exec(t, "CHECKPOINT") // it writes everything to disk
	there, err := pgxpool.New(t.Context(), c.standby.DSN("postgres"))
	check(t, err)
	defer there.Close()
	waittest.NoError(t, func() error {
		var caughtUp bool
		err := there.QueryRow(t.Context(), "SELECT pg_last_wal_replay_lsn() >= $1::text::pg_lsn", at).Scan(&caughtUp)
		if err == nil && !caughtUp {
			err = context.DeadlineExceeded
		}
		return err
	})
}

// part disconnects the standby: it receives nothing that follows.
func (c *pair) part(t *testing.T) {
	t.Helper()
	c.catchUp(t)
	check(t, c.standby.Stop(t.Context()))
}

// failOver stops the primary, and promotes the standby.
func (c *pair) failOver(t *testing.T) {
	t.Helper()
	check(t, c.primary.Kill(t.Context()))
	check(t, c.standby.Start(t.Context()))
	check(t, c.standby.Promote(t.Context()))
	c.promoted = (&bank{name: c.name, dsn: c.standby.DSN(c.name)}).through(t, c.standby.DSN(c.name))
}

// as is the coordinator's side at the new primary, as another user.
func (c *pair) as(t *testing.T, user string) participant.Participant {
	t.Helper()
	return c.promoted.opened(t, map[string]string{"dsn": c.standby.DSNAs(user, c.name)})
}

// said are the results of all calls that determine a branch's outcome.
func said(t *testing.T, p participant.Participant, b participant.Branch) map[string]participant.Result {
	t.Helper()
	all := map[string]participant.Result{}
	for name, ask := range map[string]func(context.Context, participant.Branch) (participant.Result, error){
		"commit": p.Commit, "rollback": p.Rollback, "settle": p.(participant.OutcomeResolver).ResolveOutcome,
		"inspect": func(ctx context.Context, b participant.Branch) (participant.Result, error) {
			t, err := p.(participant.Inspector).Inspect(ctx, b)
			return participant.Result{Outcome: t.Outcome, Detail: t.Detail}, err
		},
	} {
		r, err := ask(t.Context(), b)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		all[name] = r
	}
	return all
}

func wantSaid(t *testing.T, p participant.Participant, b participant.Branch, want participant.BranchOutcome, text string) {
	t.Helper()
	for name, r := range said(t, p, b) {
		if r.Outcome != want || !strings.Contains(r.Detail, text) {
			t.Errorf("%s: %v (%s); want %v and %q", name, r.Outcome, r.Detail, want, text)
		}
	}
}

// forget removes fields from a branch's session reference.
func forget(t *testing.T, b participant.Branch, what ...func(*SessionRef)) participant.Branch {
	t.Helper()
	s, err := ParseSessionRef(b.SessionRef)
	check(t, err)
	for _, f := range what {
		f(&s)
	}
	b.SessionRef = s.String()
	return b
}

func noPlace(s *SessionRef)     { s.Written = 0 }
func noTimeline(s *SessionRef)  { s.Timeline, s.Written = 0, 0 }
func noRecovered(s *SessionRef) { s.Recovered, s.Started, s.Replayed = time.Time{}, time.Time{}, 0 }

// TestAnotherTransactionHasTheNumberAfterAFailover: a standby that had not received
// the prepare assigns the number to another transaction, whose outcome is not the branch's.
func TestAnotherTransactionHasTheNumberAfterAFailover(t *testing.T) {
	c := newPair(t)
	c.exec(t, "CREATE ROLE teller LOGIN")
	c.part(t)
	br := c.prepared(t, "INSERT INTO account VALUES ('alice', 1)")
	s, err := ParseSessionRef(br.SessionRef)
	check(t, err)
	if s.Timeline != 1 || s.Written == 0 {
		t.Fatalf("the session reference is %v", s)
	}
	c.failOver(t)
	if !c.promoted.again(t, s.XID) {
		t.Fatal("the number was not assigned again")
	}
	if n := c.promoted.balance(t, "alice"); n != 0 {
		t.Fatalf("the branch is there: %d", n)
	}

	wantSaid(t, c.as(t, "postgres"), br, participant.RolledBack, "the branch came later")
	teller := c.as(t, "teller") // a user that may not read the history of the timelines
	wantSaid(t, teller, br, participant.Unknown, "may have assigned the number to another transaction: the server has failed over or been restored since (timeline 2, not 1)")
	for _, b := range []participant.Branch{forget(t, br, noPlace), forget(t, br, noTimeline), forget(t, br, noTimeline, noRecovered)} {
		wantSaid(t, c.as(t, "postgres"), b, participant.Unknown, "may have assigned the number to another transaction")
		wantSaid(t, teller, b, participant.Unknown, "may have assigned the number to another transaction")
	}
	// A branch that never voted is not prepared, and its backend ended with the primary.
	br.Vote = 0
	for _, b := range []participant.Branch{br, forget(t, br, noTimeline)} {
		r, err := teller.Rollback(t.Context(), b)
		wantEnd(t, r, err, participant.RolledBack)
	}
}

// TestNoMarkerRowOnAServerThatMayBeAnother is no proof of how a branch that voted yes has ended.
func TestNoMarkerRowOnAServerThatMayBeAnother(t *testing.T) {
	c := newPair(t)
	c.withMarkers(t)
	c.catchUp(t)
	c.part(t)
	br := c.prepared(t, "INSERT INTO account VALUES ('alice', 1)")
	s, err := ParseSessionRef(br.SessionRef)
	check(t, err)
	c.failOver(t)
	if !s.hasMarker() || !c.promoted.again(t, s.XID) {
		t.Fatal("it has no row, or the number was not assigned again", s)
	}
	p := c.as(t, "postgres")
	for _, b := range []participant.Branch{forget(t, br, noPlace), forget(t, br, noTimeline)} {
		r, err := p.Commit(t.Context(), b)
		wantEnd(t, r, err, participant.Unknown)
		r, err = p.Rollback(t.Context(), b)
		wantEnd(t, r, err, participant.Unknown)
		b.Vote = 0 // its backend ended with the primary
		r, err = p.Rollback(t.Context(), b)
		wantEnd(t, r, err, participant.RolledBack)
	}
}

// TestNumberAfterAFailoverThatIsNotCommitted: what the status of a reassigned number proves about
// a branch that the new primary had not received.
func TestNumberAfterAFailoverThatIsNotCommitted(t *testing.T) {
	c := newPair(t)
	c.exec(t, "CREATE ROLE teller LOGIN")
	c.part(t)
	br := c.prepared(t, "INSERT INTO account VALUES ('alice', 1)")
	c.failOver(t)
	super, teller := c.as(t, "postgres"), c.as(t, "teller")

	wantSaid(t, super, br, participant.RolledBack, "the branch came later") // the number was not assigned
	wantSaid(t, teller, br, participant.RolledBack, "not assigned")
	tx, err := c.promoted.pool.Begin(t.Context())
	check(t, err)
	var number uint64
	check(t, tx.QueryRow(t.Context(), "SELECT pg_current_xact_id()::text::bigint").Scan(&number))
	if s, err := ParseSessionRef(br.SessionRef); err != nil || s.XID != number {
		t.Fatal(s, number, err)
	}
	wantSaid(t, super, br, participant.RolledBack, "the branch came later")
	if r, err := teller.Commit(t.Context(), br); err == nil || !strings.Contains(err.Error(), "which may be another's") {
		t.Errorf("%v, %v", r, err)
	}
	_, err = tx.Exec(t.Context(), "INSERT INTO account VALUES ('bob', 1)")
	check(t, err)
	check(t, tx.Rollback(t.Context()))
	wantSaid(t, super, br, participant.RolledBack, "the branch came later")
	wantSaid(t, teller, br, participant.RolledBack, "aborted") // had it been committed, that would be under its number
}

// TestNothingIsLostWithASynchronousStandby: votes are kept, and outcomes are known to a user that
// may read the history of the timelines.
func TestNothingIsLostWithASynchronousStandby(t *testing.T) {
	c := newPair(t)
	c.exec(t, "CREATE ROLE teller LOGIN")
	check(t, c.primary.Synchronize(t.Context(), "s1"))

	promised, wanted := c.prepared(t, "INSERT INTO account VALUES ('promised', 1)"), c.prepared(t, "INSERT INTO account VALUES ('wanted', 1)")
	done, undone := c.prepared(t, "INSERT INTO account VALUES ('done', 1)"), c.prepared(t, "INSERT INTO account VALUES ('undone', 1)")
	check(t, finishPrepared(t.Context(), c.pool, commitPrepared, done.XID)) // and the answer is lost
	check(t, finishPrepared(t.Context(), c.pool, rollbackPrepared, undone.XID))
	single, open := newBranch(), newBranch()
	w := c.work(t, single.XID, "INSERT INTO account VALUES ('single', 1)")
	single.SessionRef = w.sessionRef.String()
	if state, err := w.CommitOnePhase(t.Context()); state != txn.BranchCommitted {
		t.Fatal(state, err)
	}
	w.Release()
	w = c.work(t, open.XID, "INSERT INTO account VALUES ('open', 1)")
	defer w.Release()
	open.SessionRef = w.sessionRef.String()
	c.failOver(t)

	super, teller := c.as(t, "postgres"), c.as(t, "teller")
	r, err := super.Commit(t.Context(), promised)
	wantEnd(t, r, err, participant.Committed)
	r, err = super.Rollback(t.Context(), wanted)
	wantEnd(t, r, err, participant.RolledBack)
	wantSaid(t, super, promised, participant.Committed, "")
	wantSaid(t, super, done, participant.Committed, "the number's place came before")
	wantSaid(t, super, undone, participant.RolledBack, "aborted")
	wantSaid(t, teller, undone, participant.RolledBack, "aborted")
	wantUnknown(t, super, single, "may have lost the number in a crash before") // it is not known whether its number was on disk
	r, err = teller.Rollback(t.Context(), open)
	wantEnd(t, r, err, participant.RolledBack)
	for id, want := range map[string]int64{"promised": 1, "wanted": 0, "done": 1, "undone": 0, "single": 1, "open": 0} {
		if n := c.promoted.balance(t, id); n != want {
			t.Errorf("%s has %d, want %d", id, n, want)
		}
	}

	wantSaid(t, teller, done, participant.Unknown, "the history of its timelines cannot be read")
	wantSaid(t, super, forget(t, done, noPlace), participant.Unknown, "has no place in the write-ahead log") // as with wal_level = logical
	c.promoted.exec(t, "GRANT EXECUTE ON FUNCTION pg_read_file(text) TO teller")
	wantSaid(t, teller, done, participant.Committed, "the number's place came before")

	// The new timeline is proof of its own.
	br := c.promoted.prepared(t, "INSERT INTO account VALUES ('new', 1)")
	if s, err := ParseSessionRef(br.SessionRef); err != nil || s.Timeline != 2 {
		t.Errorf("%v, %v", s, err)
	}
	check(t, finishPrepared(t.Context(), c.promoted.pool, commitPrepared, br.XID))
	wantSaid(t, teller, br, participant.Committed, "")
	wantSaid(t, teller, forget(t, br, noTimeline), participant.Committed, "") // it has the server's lifetime
	wantSaid(t, teller, forget(t, br, noTimeline, noRecovered), participant.Unknown, "has no timeline")
}

// wantUnknown wants the outcome of a branch that never voted to be unknown.
func wantUnknown(t *testing.T, p participant.Participant, b participant.Branch, text string) {
	t.Helper()
	for name, r := range said(t, p, b) {
		if name != "commit" && (r.Outcome != participant.Unknown || !strings.Contains(r.Detail, text)) { // a branch whose commit is decided has voted
			t.Errorf("%s: %v (%s); want unknown and %q", name, r.Outcome, r.Detail, text)
		}
	}
}

// TestCrashBeforeAFailover: the primary lost a branch in a crash, assigned its number to another
// transaction, and wrote further than the branch's place, all on one timeline. The standby has
// that place, and not the branch.
func TestCrashBeforeAFailover(t *testing.T) {
	c := newPair(t)
	kept := c.prepared(t, "INSERT INTO account VALUES ('kept', 1)")
	check(t, finishPrepared(t.Context(), c.pool, commitPrepared, kept.XID))
	var lost participant.Branch
	for tries := 0; ; tries++ { // the server may happen to write the number to disk
		if tries == 5 {
			t.Fatal("no number was assigned again")
		}
		var b *branch
		b, lost = c.alone(t, "INSERT INTO account VALUES ('lost', 1)")
		check(t, c.primary.Kill(t.Context()))
		check(t, c.primary.Start(t.Context()))
		b.Release()
		if c.again(t, b.sessionRef.XID) {
			break
		}
	}
	c.catchUp(t)
	c.failOver(t)
	if n := c.promoted.balance(t, "lost"); n != 0 {
		t.Fatalf("the branch is there: %d", n)
	}

	const why = "may have lost the number in a crash before"
	super := c.as(t, "postgres")
	wantSaid(t, super, kept, participant.Committed, "the number's place came before")
	wantUnknown(t, super, lost, why)
	check(t, c.standby.Stop(t.Context())) // it then does not know any more how far it recovered
	check(t, c.standby.Start(t.Context()))
	waittest.NoError(t, func() error { return super.Check(t.Context()) })
	wantSaid(t, super, kept, participant.Committed, "the number's place came before")
	wantUnknown(t, super, lost, why)
}

// TestPointInTimeRecovery: a server that was restored to a point in time reports the outcomes of
// earlier branches, and that later ones are not in its history.
func TestPointInTimeRecovery(t *testing.T) {
	primary := startPostgres(t)
	c := &pair{bank: newBankOn(t, primary), primary: primary, standby: backup(t, primary)}
	before, kept := c.prepared(t, "INSERT INTO account VALUES ('before', 1)"), c.prepared(t, "INSERT INTO account VALUES ('kept', 1)")
	check(t, finishPrepared(t.Context(), c.pool, commitPrepared, before.XID))
	c.exec(t, "SELECT pg_create_restore_point('here')")
	after := c.prepared(t, "INSERT INTO account VALUES ('after', 1)")
	check(t, finishPrepared(t.Context(), c.pool, commitPrepared, after.XID))
	check(t, finishPrepared(t.Context(), c.pool, commitPrepared, kept.XID))
	check(t, primary.Stop(t.Context()))
	check(t, c.standby.Recover(t.Context(), primary, "here"))
	c.promoted = (&bank{name: c.name, dsn: c.standby.DSN(c.name)}).through(t, c.standby.DSN(c.name))
	s, err := ParseSessionRef(after.SessionRef)
	check(t, err)
	if !c.promoted.again(t, s.XID) {
		t.Fatal("the number was not assigned again")
	}

	p := c.as(t, "postgres")
	wantSaid(t, p, before, participant.Committed, "the number's place came before")
	wantSaid(t, p, after, participant.RolledBack, "the branch came later")
	wantSaid(t, p, forget(t, after, noPlace), participant.Unknown, "may have assigned the number to another transaction")
	r, err := p.Commit(t.Context(), kept) // it is prepared again
	wantEnd(t, r, err, participant.Committed)
}

// TestServerThatLostItsLog: a backup that is put back as it is stays on its timeline,
// and does not have what came after it.
func TestServerThatLostItsLog(t *testing.T) {
	primary := startPostgres(t)
	c := &pair{bank: newBankOn(t, primary), primary: primary, standby: backup(t, primary)}
	near := c.prepared(t, "INSERT INTO account VALUES ('near', 1)")
	check(t, finishPrepared(t.Context(), c.pool, commitPrepared, near.XID))
	c.exec(t, "SELECT pg_switch_wal()")
	far := c.prepared(t, "INSERT INTO account VALUES ('far', 1)")
	check(t, finishPrepared(t.Context(), c.pool, commitPrepared, far.XID))
	wantSaid(t, c.opened(t, nil), near, participant.Committed, "")
	wantSaid(t, c.opened(t, nil), far, participant.Committed, "")
	check(t, primary.Stop(t.Context()))

	check(t, c.standby.Restore(t.Context()))
	c.promoted = (&bank{name: c.name, dsn: c.standby.DSN(c.name)}).through(t, c.standby.DSN(c.name))
	p := c.as(t, "postgres")
	for _, br := range []participant.Branch{near, far} {
		s, err := ParseSessionRef(br.SessionRef)
		check(t, err)
		if s.Timeline != 1 || !c.promoted.again(t, s.XID) {
			t.Fatalf("the number of %v was not assigned again", s)
		}
	}
	wantSaid(t, p, near, participant.Unknown, "was restored, or is not the server of the connection")
	wantSaid(t, p, forget(t, near, noStatistics), participant.Unknown, "was restored, or is not the server of the connection")
	wantSaid(t, p, far, participant.RolledBack, "before the branch") // the log is not so long again
	for _, id := range []string{"near", "far"} {
		if n := c.promoted.balance(t, id); n != 0 {
			t.Errorf("%s is there: %d", id, n)
		}
	}
	// Branches that are prepared now are known as usual, also after a crash.
	br := c.promoted.prepared(t, "INSERT INTO account VALUES ('new', 1)")
	check(t, finishPrepared(t.Context(), c.promoted.pool, commitPrepared, br.XID))
	wantSaid(t, p, br, participant.Committed, "")
	check(t, c.standby.Kill(t.Context()))
	check(t, c.standby.Start(t.Context()))
	waittest.NoError(t, func() error { return p.Check(t.Context()) }) // connections of the pool have died
	for _, ask := range []func(context.Context, participant.Branch) (participant.Result, error){p.Commit, p.Rollback} {
		r, err := ask(t.Context(), br)
		wantEnd(t, r, err, participant.Committed)
	}
}

// TestTwoServersOnOneTimeline: two standbys of one primary are both promoted, and begin
// a timeline of the same number each. One does not report the outcomes of the other.
func TestTwoServersOnOneTimeline(t *testing.T) {
	c := newPair(t)
	other := backup(t, c.primary)
	check(t, other.Follow(t.Context(), c.primary, "s2"))
	check(t, other.Stop(t.Context()))
	c.catchUp(t) // the other one has received less
	c.failOver(t)
	br := c.promoted.prepared(t, "INSERT INTO account VALUES ('alice', 1)")
	check(t, finishPrepared(t.Context(), c.promoted.pool, commitPrepared, br.XID))
	wantSaid(t, c.as(t, "postgres"), br, participant.Committed, "")
	check(t, c.standby.Kill(t.Context()))

	check(t, other.Start(t.Context()))
	check(t, other.Promote(t.Context()))
	c.standby = other
	c.promoted = (&bank{name: c.name, dsn: other.DSN(c.name)}).through(t, other.DSN(c.name))
	s, err := ParseSessionRef(br.SessionRef)
	check(t, err)
	if s.Timeline != 2 || !c.promoted.again(t, s.XID) {
		t.Fatalf("the number of %v was not assigned again", s)
	}
	c.promoted.exec(t, "INSERT INTO account SELECT gen_random_uuid()::text, 1 FROM generate_series(1, 100)") // beyond the branch's place
	for _, asked := range []participant.Branch{br, forget(t, br, noStatistics)} {
		wantSaid(t, c.as(t, "postgres"), asked, participant.Unknown, "is not the server of the connection")
	}
}

// TestNoRecordForLogicalDecoding: consumers of logical decoding see no records of branches.
func TestNoRecordForLogicalDecoding(t *testing.T) {
	s, err := testdb.StartPostgres(t.Context(), testdb.PostgresConfig{NoFsync: true, Settings: map[string]string{"wal_level": "logical"}})
	check(t, err)
	t.Cleanup(func() { check(t, s.Close()) })
	bank := newBankOn(t, s)
	bank.exec(t, "SELECT pg_create_logical_replication_slot('decoder', 'test_decoding')")
	for range 2 { // the second time, the backend is known
		br := newBranch()
		w := bank.work(t, br.XID, "INSERT INTO account VALUES (gen_random_uuid()::text, 1)")
		if w.sessionRef.Timeline != 1 || w.sessionRef.Written != 0 {
			t.Errorf("session reference %v", w.sessionRef)
		}
		if vote, err := w.Prepare(t.Context()); vote != txn.VotePrepared {
			t.Fatal(vote, err)
		}
		check(t, w.Commit(t.Context()))
		w.Release()
	}
	var messages int
	check(t, bank.pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_logical_slot_get_changes('decoder', NULL, NULL) WHERE data LIKE 'message%'").Scan(&messages))
	if messages != 0 {
		t.Errorf("%d messages", messages)
	}
}

// TestCheckHealthOfStandbys: the health check warns of asynchronous standbys before a failover.
func TestCheckHealthOfStandbys(t *testing.T) {
	const subject = "failover"
	c := newPair(t)
	c.exec(t, "CREATE ROLE teller LOGIN")
	super, teller := c.opened(t, nil), c.opened(t, map[string]string{"dsn": c.primary.DSNAs("teller", c.name)})
	asynchronous := "1 standbys, all asynchronous: a failover may lose branches"
	wantHealthCheck(t, healthCheck(t, super, subject), participant.Warning, asynchronous, "ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)'; SELECT pg_reload_conf();")
	wantHealthCheck(t, healthCheck(t, teller, subject), participant.Warning, asynchronous, "synchronous_standby_names")
	wantHealthCheck(t, healthCheck(t, teller, subject), participant.Warning, "GRANT EXECUTE ON FUNCTION pg_read_file(text) TO teller;", "synchronous_standby_names")

	check(t, c.primary.Synchronize(t.Context(), "s1"))
	d := healthCheck(t, super, subject)
	wantHealthCheck(t, d, participant.OK, "synchronous standbys: s1", "")
	if strings.Contains(d.Message, "pg_read_file") {
		t.Errorf("a superuser gets %q", d.Message)
	}
	wantHealthCheck(t, healthCheck(t, teller, subject), participant.OK, "user teller may not read which log", "")

	check(t, c.standby.Stop(t.Context()))
	waittest.NoError(t, func() error {
		if d := healthCheck(t, super, subject); d.Level != participant.Warning || !strings.Contains(d.Message, "no synchronous standby is connected (s1; 0 others)") {
			return errors.New(d.Message)
		}
		return nil
	})
	wantHealthCheck(t, healthCheck(t, teller, subject), participant.Warning, "no synchronous standby is connected", "start the standby")
}
