package mariadb

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

func open(settings map[string]string) (participant.Participant, error) {
	return Driver(context.Background(), admin.Participant{Name: "bank", Kind: Kind, Settings: settings}, "test")
}

func TestSettingsAreRefused(t *testing.T) {
	const good = "root@tcp(127.0.0.1:1)/bank"
	for name, c := range map[string]struct {
		settings map[string]string
		why      string
	}{
		"commit_marker":      {map[string]string{"dsn": good, "commit_marker": "a`b"}, "want off, or 1 to 64 letters"},
		"marker too long":    {map[string]string{"dsn": good, "commit_marker": strings.Repeat("x", 65)}, "want off, or 1 to 64 letters"},
		"password":           {map[string]string{"dsn": "me:s3cret@tcp(host:3306)/bank"}, "give dsn_file"},
		"password parameter": {map[string]string{"dsn": "me@tcp(host:3306)/bank?Password=s3cret"}, "give dsn_file"},
		"no slash":           {map[string]string{"dsn": "me:s3cret@tcp(host:3306)"}, "give dsn_file"},
		"string as file":     {map[string]string{"dsn_file": "me:s3cret@tcp(host:3306)/bank"}, "the path of a file"},
		"string as variable": {map[string]string{"dsn_env": "me:s3cret@/bank"}, "the name of an environment variable"},
		"unclosed":           {map[string]string{"dsn": "me:s3cret@tcp(host:3306/bank"}, "give dsn_file"},
		"bad parameter":      {map[string]string{"dsn": "me@tcp(host:3306)/bank?timeout=s3cret"}, "give dsn_file"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := open(c.settings)
			if !errors.Is(err, txn.ErrInvalid) || !strings.Contains(err.Error(), c.why) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("got %v, want %s", err, c.why)
			}
		})
	}
}

// TestNoErrorShowsAPassword tries connection strings that fail in different
// places: the parser, the connection, and the server, which may or may not accept the password.
func TestNoErrorShowsAPassword(t *testing.T) {
	at := strings.TrimPrefix(server.DSN("nowhere"), "root")
	for name, dsn := range map[string]string{
		"no listener":         "me:s3cret@tcp(127.0.0.1:1)/bank",
		"no such user":        "me:s3cret" + at,
		"no such database":    "root" + at,
		"no database":         "me:s3cret@tcp(127.0.0.1:1)/",
		"port is no number":   "me:s3cret@tcp(127.0.0.1:s3cret)/bank",
		"no slash":            "me:s3cret@tcp(127.0.0.1:1)",
		"no @":                "me:s3cret(127.0.0.1:1)/bank",
		"bad escape":          "me:s3cret@tcp(127.0.0.1:1)/b%zzs3cret",
		"unknown protocol":    "me:s3cret@s3cret(127.0.0.1:1)/bank",
		"bad timeout":         "me:s3cret@tcp(127.0.0.1:1)/bank?timeout=s3cret",
		"unknown TLS":         "me:s3cret@tcp(127.0.0.1:1)/bank?tls=s3cret",
		"unknown public key":  "me:s3cret@tcp(127.0.0.1:1)/bank?serverPubKey=s3cret",
		"unknown compression": "me:s3cret@tcp(127.0.0.1:1)/bank?compress=s3cret",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TXMGR_TEST_DSN", dsn)
			file := filepath.Join(t.TempDir(), "dsn")
			check(t, os.WriteFile(file, []byte(dsn+"\n"), 0o600))
			for _, settings := range []map[string]string{{"dsn_env": "TXMGR_TEST_DSN"}, {"dsn_file": file}} {
				p, err := open(settings)
				check(t, err)
				_, errCommit := p.Commit(t.Context(), newName())
				for call, err := range map[string]error{"check": p.Check(t.Context()), "commit": errCommit} {
					if err == nil || strings.Contains(err.Error(), "s3cret") {
						t.Errorf("%v: %s: %v", settings, call, err)
					}
				}
				for _, d := range p.(participant.HealthChecker).CheckHealth(t.Context()) {
					if d.Level != participant.Failure || strings.Contains(d.Message+d.Remedy, "s3cret") {
						t.Errorf("%v: %v", settings, d)
					}
				}
				check(t, p.Close())
			}
		})
	}
}

// TestConnectionStringIsReadAnewAtEachConnect, so that a password can change without a restart.
func TestConnectionStringIsReadAnewAtEachConnect(t *testing.T) {
	bank := newBank(t)
	file := filepath.Join(t.TempDir(), "dsn")
	p, err := open(map[string]string{"dsn_file": file})
	check(t, err)
	defer func() { check(t, p.Close()) }()

	if err := p.Check(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without the file: %v", err)
	}
	check(t, os.WriteFile(file, []byte("root@tcp(127.0.0.1:1)/bank"), 0o600))
	if err := p.Check(t.Context()); err == nil {
		t.Error("connected without a server")
	}
	bank.exec(t, "CREATE USER changing@'127.0.0.1' IDENTIFIED BY 'first'")
	bank.exec(t, "GRANT ALL ON *.* TO changing@'127.0.0.1'")
	for _, password := range []string{"first", "second"} {
		bank.exec(t, "ALTER USER changing@'127.0.0.1' IDENTIFIED BY '"+password+"'")
		check(t, os.WriteFile(file, []byte(strings.Replace(bank.dsn, "root", "changing:"+password, 1)), 0o600))
		p.(*resourceManager).db.SetMaxIdleConns(0) // every call connects
		if err := p.Check(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestEnvironmentVariableThatIsMissingIsNamed(t *testing.T) {
	p, err := open(map[string]string{"dsn_env": "TXMGR_TEST_NO_SUCH"})
	check(t, err)
	defer func() { check(t, p.Close()) }()
	if err := p.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "TXMGR_TEST_NO_SUCH is not set") {
		t.Errorf("got %v", err)
	}
}

// TestParametersOfTheConnectionStringChangeNothing that the coordinator relies on.
func TestParametersOfTheConnectionStringChangeNothing(t *testing.T) {
	bank := newBank(t)
	t.Setenv("TXMGR_TEST_DSN", bank.dsn+"?autocommit=0&sql_mode=ORACLE&innodb_lock_wait_timeout=50&tx_isolation='SERIALIZABLE'&parseTime=true&clientFoundRows=true&rejectReadOnly=true&time_zone='-11:00'")
	p, err := open(map[string]string{"dsn_env": "TXMGR_TEST_DSN"})
	check(t, err)
	defer func() { check(t, p.Close()) }()
	check(t, p.Check(t.Context()))
	res, err := p.Commit(t.Context(), bank.prepared(t, "INSERT INTO account VALUES ('alice', 1)"))
	wantEnd(t, res, err, participant.Committed)
	br := newName()
	w := bank.work(t, br.XID, "INSERT INTO account VALUES ('bob', 1)")
	defer w.Release()
	br.SessionRef = w.sessionRef.String()
	res, err = p.Rollback(t.Context(), br)
	wantEnd(t, res, err, participant.RolledBack)
	if n := bank.balance(t, "alice"); n != 1 {
		t.Errorf("alice has %d", n)
	}
}
