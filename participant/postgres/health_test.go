package postgres

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txmgr/txmgr/internal/testdb"
	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// healthCheck returns the check of a subject.
func healthCheck(t *testing.T, p participant.Participant, subject string) (found participant.Check) {
	t.Helper()
	for _, d := range p.(participant.HealthChecker).CheckHealth(t.Context()) {
		if d.Subject == subject {
			found = d
		}
	}
	if found.Level == 0 {
		t.Fatalf("nothing was said of %s", subject)
	}
	return found
}

func wantHealthCheck(t *testing.T, d participant.Check, level participant.HealthLevel, found, fix string) {
	t.Helper()
	if d.Level != level || !strings.Contains(d.Message, found) || !strings.Contains(d.Remedy, fix) {
		t.Errorf("got %+v; want level %d, %q, fix %q", d, level, found, fix)
	}
}

func TestCheckHealthOfASoundServer(t *testing.T) {
	s := testdb.OpenPostgres(t, testdb.PostgresConfig{})
	p := newBankOn(t, s).withMarkers(t).opened(t, nil)
	seen := map[string]bool{}
	for _, d := range p.(participant.HealthChecker).CheckHealth(t.Context()) {
		if d.Level != participant.OK || d.Message == "" || d.Remedy != "" || seen[d.Subject] {
			t.Errorf("got %+v", d)
		}
		seen[d.Subject] = true
	}
	if len(seen) != 12 {
		t.Errorf("%d subjects: %v", len(seen), seen)
	}
}

// TestCheckHealthFindsProblems: each remedy is applied where possible.
func TestCheckHealthFindsProblems(t *testing.T) {
	s := testdb.OpenPostgres(t, testdb.PostgresConfig{MaxPrepared: -1, NoFsync: true, Settings: map[string]string{
		"full_page_writes": "off", "synchronous_commit": "off",
		"statement_timeout": "2s", "lock_timeout": "3s", "idle_in_transaction_session_timeout": "1min",
	}})
	bank := newBankOn(t, s)
	p := bank.opened(t, nil)
	const slots, durability, failover, timeouts, readOnly = "max_prepared_transactions", "durability", "failover", "timeouts", "read-only"
	again := func(sql ...string) { // in a new session of the coordinator
		t.Helper()
		for _, one := range sql {
			bank.exec(t, one)
		}
		check(t, s.Stop(t.Context()))
		check(t, s.Start(t.Context()))
		bank.pool.Reset()
		waittest.NoError(t, func() error { _, err := p.Prepared(t.Context(), ""); return err })
	}
	d := healthCheck(t, p, slots)
	wantHealthCheck(t, d, participant.Failure, "max_prepared_transactions = 0", "ALTER SYSTEM SET max_prepared_transactions = 200; then restart")
	wantHealthCheck(t, healthCheck(t, p, durability), participant.Failure, "fsync is off", "ALTER SYSTEM SET fsync = on; SELECT pg_reload_conf();")
	wantHealthCheck(t, healthCheck(t, p, failover), participant.OK, "no standby is connected, and none would be synchronous", "")
	wantHealthCheck(t, healthCheck(t, p, timeouts), participant.Warning, "statement_timeout = 2s", "ALTER ROLE postgres SET statement_timeout = 0;")

	again("ALTER SYSTEM SET max_prepared_transactions = 5", "ALTER SYSTEM SET fsync = on", "ALTER ROLE postgres SET statement_timeout = 0")
	wantHealthCheck(t, healthCheck(t, p, slots), participant.Warning, "less than max_connections = 100", "= 200")
	wantHealthCheck(t, healthCheck(t, p, durability), participant.Failure, "full_page_writes is off", "SET full_page_writes = on")
	wantHealthCheck(t, healthCheck(t, p, timeouts), participant.OK, "lock_timeout = 3s", "")
	var all []participant.Branch
	for n := range 4 {
		all = append(all, bank.prepared(t, "INSERT INTO account VALUES ($1, 1)", fmt.Sprint(n)))
	}
	wantHealthCheck(t, healthCheck(t, p, slots), participant.Warning, "4 of 5 prepared transactions are in use", "find out what is prepared")
	for _, br := range all {
		r, err := p.Commit(t.Context(), br)
		wantEnd(t, r, err, participant.Committed)
	}

	again("ALTER SYSTEM SET full_page_writes = on", "ALTER SYSTEM SET synchronous_standby_names = 'nobody'",
		"ALTER DATABASE "+bank.name+" SET default_transaction_read_only = on")
	wantHealthCheck(t, healthCheck(t, p, durability), participant.Warning, "branches of global transactions reach the disk all the same", "SET synchronous_commit = on")
	wantHealthCheck(t, healthCheck(t, p, failover), participant.Warning, "nothing waits for the synchronous standbys (nobody)", "SET synchronous_commit = on")
	wantHealthCheck(t, healthCheck(t, p, readOnly), participant.Warning, "default_transaction_read_only is on", "ALTER DATABASE "+bank.name+" RESET default_transaction_read_only;")
}

func TestCheckHealthOfAnUnreachableServer(t *testing.T) {
	p, err := open(map[string]string{"dsn": "host=127.0.0.1 port=1 user=me dbname=x"})
	check(t, err)
	defer func() { check(t, p.Close()) }()
	all := p.(participant.HealthChecker).CheckHealth(t.Context())
	if len(all) != 1 {
		t.Errorf("got %+v", all)
	}
	wantHealthCheck(t, all[0], participant.Failure, "postgres bank: check health", "psql")
	unset, err := open(map[string]string{"dsn_env": "TXMGR_TEST_NO_SUCH"})
	check(t, err)
	defer func() { check(t, unset.Close()) }()
	wantHealthCheck(t, healthCheck(t, unset, "connection"), participant.Failure, "TXMGR_TEST_NO_SUCH is not set", "dsn_env TXMGR_TEST_NO_SUCH")
}

// TestPreparedSurvivesWithoutSynchronousCommit is why the health check only warns:
// PREPARE TRANSACTION and COMMIT PREPARED wait for the disk in any case.
func TestPreparedSurvivesWithoutSynchronousCommit(t *testing.T) {
	prepares := newLazy(t)
	var all []participant.Branch
	for prepares.untilLost(t) {
		all = append(all, prepares.prepared(t, "INSERT INTO account VALUES ($1, 1)", newBranch().XID))
		prepares.crash(t)
	}
	for _, br := range all {
		r, err := prepares.opened(t, nil).Commit(t.Context(), br)
		if err != nil || r.Detail != commitPrepared {
			t.Errorf("a prepare was lost: %v, %v", r, err)
		}
	}
	commits := newLazy(t)
	for commits.untilLost(t) {
		id := newBranch().XID
		br := commits.prepared(t, "INSERT INTO account VALUES ($1, 1)", id)
		r, err := commits.opened(t, nil).Commit(t.Context(), br)
		wantEnd(t, r, err, participant.Committed)
		commits.crash(t)
		if n := commits.balance(t, id); n != 1 {
			t.Errorf("a commit was lost: it has %d", n)
		}
	}
}

// TestCheckHealthOfPrivileges: the missing privileges of users that are not superusers.
func TestCheckHealthOfPrivileges(t *testing.T) {
	const subject = "user"
	bank := newBank(t)
	app, other := bank.name+"_app", bank.name+"_other"
	for _, user := range []string{app, other} {
		bank.exec(t, "CREATE ROLE "+user+" LOGIN")
		bank.exec(t, "GRANT ALL ON account TO "+user)
	}
	bank.pool.Close() // no other user is connected
	pool, err := pgxpool.New(t.Context(), server.DSNAs(app, bank.name))
	check(t, err)
	defer pool.Close()
	coordinator := func(user string) participant.Participant {
		t.Helper()
		p, err := open(map[string]string{"dsn": server.DSNAs(user, bank.name)})
		check(t, err)
		t.Cleanup(func() { check(t, p.Close()) })
		return p
	}
	superuser, err := pgxpool.New(t.Context(), server.DSN("postgres"))
	check(t, err)
	defer superuser.Close()
	inBank, err := pgxpool.New(t.Context(), bank.dsn)
	check(t, err)
	defer inBank.Close()
	admin := func(sql string) {
		t.Helper()
		_, err := superuser.Exec(t.Context(), sql)
		check(t, err)
	}
	same, foreign := coordinator(app), coordinator(other)
	waittest.NoError(t, func() error {
		if d := healthCheck(t, foreign, subject); d.Level != participant.OK {
			return fmt.Errorf("connections of the set-up are still there: %+v", d)
		}
		return nil
	})
	check(t, foreign.Check(t.Context()))
	wantHealthCheck(t, healthCheck(t, foreign, subject), participant.OK, "no other user is connected now", "")
	br := newBranch()
	b := workIn(t, New("bank", pool), br.XID, "INSERT INTO account VALUES ('alice', 1)")
	wantHealthCheck(t, healthCheck(t, foreign, subject), participant.Warning, "lacks pg_read_all_stats and pg_signal_backend, and "+app+" have connections", "GRANT pg_read_all_stats, pg_signal_backend TO "+other+";")
	admin("GRANT pg_read_all_stats TO " + other)
	wantHealthCheck(t, healthCheck(t, foreign, subject), participant.Warning, "lacks pg_signal_backend,", "GRANT pg_signal_backend TO "+other+";")
	admin("GRANT pg_signal_backend TO " + other)
	wantHealthCheck(t, healthCheck(t, foreign, subject), participant.Warning, "cannot finish its branches", "the same user")
	if vote, err := b.Prepare(t.Context()); vote != txn.VotePrepared {
		t.Fatal(vote, err)
	}
	wantHealthCheck(t, healthCheck(t, foreign, subject), participant.Failure, "user "+app+" prepared 1 branches here", "connect as "+app)
	check(t, b.Rollback(t.Context()))
	b.Release()
	wantHealthCheck(t, healthCheck(t, coordinator("postgres"), subject), participant.OK, "superuser", "")
	_, err = inBank.Exec(t.Context(), "REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
	check(t, err)
	wantHealthCheck(t, healthCheck(t, same, subject), participant.Failure, "may not call pg_control_system", "GRANT EXECUTE ON FUNCTION pg_control_system() TO "+app)
}
