package postgres

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
	for name, c := range map[string]struct {
		settings map[string]string
		why      string
	}{
		"marker table":      {map[string]string{"dsn": "host=/tmp", "commit_marker": "Bank.x"}, `marker table "Bank.x": want off, or`},
		"marker schema":     {map[string]string{"dsn": "host=/tmp", "commit_marker": "a.b.c"}, `marker table "a.b.c": want off, or`},
		"password in URL":   {map[string]string{"dsn": "postgres://me:s3cret@host/db"}, "give dsn_file"},
		"password in query": {map[string]string{"dsn": "postgresql://me@host/db?password=s3cret"}, "give dsn_file"},
		"ssl password":      {map[string]string{"dsn": "postgres://me@host/db?sslPassword=s3cret"}, "give dsn_file"},
		"password in words": {map[string]string{"dsn": "host=x password = 's3cret'"}, "give dsn_file"},
		"PASSWORD in words": {map[string]string{"dsn": "PASSWORD=s3cret host=x"}, "give dsn_file"},
		"broken URL":        {map[string]string{"dsn": "postgres://me:s3cret@host:port/%zz"}, "give dsn_file"},
		"slash in password": {map[string]string{"dsn": "postgres://me:12/s3cret@host/db"}, "give dsn_file"},
		"URL as file":       {map[string]string{"dsn_file": "postgres://me:s3cret@host/db"}, "the path of a file"},
		"words as variable": {map[string]string{"dsn_env": "host=x password=s3cret"}, "the name of an environment variable"},
		"broken query":      {map[string]string{"dsn": "postgres://host/db?a=%zz&s3cret"}, "give dsn_file"},
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
// places: the parser, whose errors quote them, and the connection.
func TestNoErrorShowsAPassword(t *testing.T) {
	for name, dsn := range map[string]string{
		"no listener":        "postgres://me:s3cret@127.0.0.1:1/db",
		"port is no number":  "postgres://me:s3cret@127.0.0.1:s3cret/db",
		"bad escape":         "postgres://me:s3cret%zz@127.0.0.1/db",
		"words, no value":    "host=127.0.0.1 password=s3cret port",
		"words, open quote":  "host=127.0.0.1 password='s3cret",
		"words, bad port":    "host=127.0.0.1 password=s3cret port=s3cret",
		"words, bad timeout": "password=s3cret connect_timeout=s3cret",
		"pool words":         "host=127.0.0.1 password=s3cret pool_max_conns=s3cret",
		"TLS file":           "host=127.0.0.1 password=s3cret sslmode=verify-full sslrootcert=/nowhere/s3cret",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TXMGR_TEST_DSN", dsn)
			file := filepath.Join(t.TempDir(), "dsn")
			check(t, os.WriteFile(file, []byte(dsn+"\n"), 0o600))
			for _, settings := range []map[string]string{{"dsn_env": "TXMGR_TEST_DSN"}, {"dsn_file": file}} {
				p, err := open(settings)
				check(t, err)
				err = p.Check(t.Context())
				if err == nil || strings.Contains(err.Error(), "s3cret") {
					t.Errorf("%v: %v", settings, err)
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
	check(t, os.WriteFile(file, []byte("host=127.0.0.1 port=1"), 0o600))
	if err := p.Check(t.Context()); err == nil {
		t.Error("connected without a server")
	}
	check(t, os.WriteFile(file, []byte(bank.dsn+"\n"), 0o600))
	if err := p.Check(t.Context()); err != nil {
		t.Error(err)
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
