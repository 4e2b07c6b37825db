package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txmgr/txmgr/internal/testdb"
	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/participant"
)

// secret is planted wherever a password may be.
const secret = "s3cret"

// TestPasswordIsNowhere: no call of a participant, and no error, shows the password, nor one in a
// statement of another client.
func TestPasswordIsNowhere(t *testing.T) {
	s := testdb.OpenPostgres(t, testdb.PostgresConfig{NoFsync: true})
	bank := newBankOn(t, s)
	askPassword(t, bank, "me")
	at := func(user, password string, port int, words string) string {
		return fmt.Sprintf("postgres://%s:%s@127.0.0.1:%d/%s?connect_timeout=1%s", user, url.QueryEscape(password), port, bank.name, words)
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never answers
	check(t, err)
	defer func() { check(t, silent.Close()) }()
	for name, c := range map[string]struct {
		dsn   string
		works bool
	}{
		"works":              {at("me", secret, s.Port(), "&sslmode=disable"), true},
		"refused":            {at("me", secret+"x", s.Port(), "&sslmode=disable"), false},
		"no such user":       {at("nobody", secret, s.Port(), "&sslmode=disable"), false},
		"no such database":   {strings.Replace(at("me", secret, s.Port(), "&sslmode=disable"), bank.name, "nowhere", 1), false},
		"no TLS there":       {at("me", secret, s.Port(), "&sslmode=require"), false},
		"unknown parameter":  {at("me", secret, s.Port(), "&sslmode=disable&s3cret_word="+secret), false},
		"no listener":        {at("me", secret, 1, ""), false},
		"no answer":          {at("me", secret, silent.Addr().(*net.TCPAddr).Port, "&sslmode=disable"), false},
		"no such socket":     {"host=/nowhere password=" + secret, false},
		"port is no number":  {"postgres://me:s3cret@127.0.0.1:s3cret/db", false},
		"bad escape":         {"postgres://me:s3cret%zz@127.0.0.1/db", false},
		"open quote":         {"host=127.0.0.1 password='s3cret", false},
		"no value":           {"host=127.0.0.1 password=s3cret port", false},
		"nothing but secret": {secret, false},
		"slash in it":        {strings.Replace(at("me", "", s.Port(), "&sslmode=disable"), "me:", "me:12/s3cret", 1), false},
		"question mark":      {strings.Replace(at("me", "", s.Port(), "&sslmode=disable"), "me:", "me:12?s3cret", 1), false},
		"number sign":        {strings.Replace(at("me", "", s.Port(), "&sslmode=disable"), "me:", "me:12#s3cret", 1), false},
		"space in it":        {fmt.Sprintf("port=%d host=127.0.0.1 user=me sslmode=disable password=12 s3cret=x", s.Port()), false},
		"space in its words": {fmt.Sprintf("port=%d host=127.0.0.1 user=me sslmode=disable password=12 s3cret dbname=x", s.Port()), false},
		"value of a word":    {at("me", secret, s.Port(), "&sslmode=disable&statement_timeout="+secret), false},
		"TLS file":           {"host=127.0.0.1 password=s3cret sslmode=verify-full sslrootcert=/nowhere/s3cret", false},
		"TLS key password":   {"host=127.0.0.1 sslpassword=s3cret sslmode=verify-full sslcert=/nowhere sslkey=/nowhere/s3cret", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TXMGR_TEST_DSN", c.dsn)
			p, err := open(map[string]string{"dsn_env": "TXMGR_TEST_DSN"})
			check(t, err)
			defer func() { check(t, p.Close()) }()
			said, worked := sayAll(t, p)
			if worked != c.works {
				t.Errorf("works: %v, want %v: %s", worked, c.works, said)
			}
			if strings.Contains(said, secret) {
				t.Errorf("the secret is in %s", said)
			}
			pool, err := pgxpool.New(t.Context(), c.dsn)
			if err != nil {
				return // the application uses its own connection string
			}
			defer pool.Close()
			b, err := beginIn(t, New("bank", pool), newBranch().XID)
			if (err == nil) != c.works {
				t.Errorf("the application: %v", err)
			}
			if err == nil {
				b.Release()
			} else if !strings.Contains(c.dsn, "me:12") && strings.Contains(err.Error(), secret) { // of these the application is shown a part, as a port
				t.Errorf("the application gets: %v", err)
			}
		})
	}
}

// askPassword makes a role that has to give the secret as its password, and that
// is in the middle of setting it again.
func askPassword(t *testing.T, bank *bank, user string) {
	t.Helper()
	bank.exec(t, "CREATE ROLE "+user+" LOGIN SUPERUSER PASSWORD '"+secret+"'")
	var file string
	check(t, bank.pool.QueryRow(t.Context(), "SHOW hba_file").Scan(&file))
	trust, err := os.ReadFile(file)
	check(t, err)
	check(t, os.WriteFile(file, append([]byte("host all "+user+" 127.0.0.1/32 scram-sha-256\n"), trust...), 0o600))
	bank.exec(t, "SELECT pg_reload_conf()")
	waittest.NoError(t, func() error {
		conn, err := pgx.Connect(t.Context(), bank.dsn+"&user="+user)
		if err != nil {
			return nil
		}
		return errors.Join(errors.New("it is let in without a password"), conn.Close(t.Context()))
	})
	bank.exec(t, "INSERT INTO account VALUES ('alice', 1)")
	br := bank.prepared(t, "UPDATE account SET balance = 2")
	ctx, cancel := context.WithCancel(t.Context())
	stop := bank.waiters(t, ctx, "DELETE FROM account; ALTER ROLE "+user+" PASSWORD '"+secret+"'")
	t.Cleanup(func() {
		cancel()
		stop()
		check(t, finishPrepared(context.Background(), bank.pool, rollbackPrepared, br.XID))
	})
}

// sayAll makes every call of a participant, and returns all results as text.
func sayAll(t *testing.T, p participant.Participant) (said string, worked bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	var all []any
	ask := func(answer any, err error) {
		all = append(all, answer)
		for ; err != nil; err = errors.Unwrap(err) {
			all = append(all, fmt.Sprintf("%v %+v %#v", err, err, err.Error()))
		}
	}
	worked = p.Check(ctx) == nil
	ask("check", p.Check(ctx))
	br := newBranch()
	for _, session := range []string{"", secret, SessionRef{PID: 1, Start: time.Unix(1, 0), XID: 3, System: 1}.String()} {
		br.SessionRef = session
		for _, do := range []func(context.Context, participant.Branch) (participant.Result, error){p.Commit, p.Rollback, p.(participant.OutcomeResolver).ResolveOutcome} {
			r, err := do(ctx, br)
			ask(fmt.Sprintf("%+v", r), err)
		}
		report, err := p.(participant.Inspector).Inspect(ctx, br)
		ask(fmt.Sprintf("%+v", report), err)
	}
	list, err := p.Prepared(ctx, "")
	ask(fmt.Sprintf("%+v", list), err)
	held, err := p.(participant.LockInspector).InspectLocks(ctx)
	ask(fmt.Sprintf("%+v", held), err)
	if worked && (len(held) != 1 || len(held[0].Waiters) != 1 || !strings.Contains(held[0].Waiters[0], "ALTER ROLE")) {
		t.Errorf("the statement with the secret is not there: %+v", held)
	}
	ask(fmt.Sprintf("%+v", p.(participant.HealthChecker).CheckHealth(ctx)), nil)
	return fmt.Sprintf("%v", all), worked
}
