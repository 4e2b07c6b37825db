package branchexec_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/branchexec"
	"github.com/txmgr/txmgr/participant/mariadb"
	"github.com/txmgr/txmgr/participant/postgres"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

func environment(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestWhereADatabaseIs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bank.dsn")
	if err := os.WriteFile(file, []byte("postgres://u:secret@127.0.0.1:5/file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := environment("BANK_DSN", "postgres://u:secret@127.0.0.1:5/env", "BAD_DSN", "postgres://u:secret@127.0.0.1:port/x")
	for name, c := range map[string]struct {
		settings map[string]string
		database string // empty: an error that says
		says     string
	}{
		"itself":      {map[string]string{"dsn": "postgres://127.0.0.1:5/itself"}, "itself", ""},
		"file":        {map[string]string{"dsn_file": file}, "file", ""},
		"environment": {map[string]string{"dsn_env": "BANK_DSN"}, "env", ""},
		"no variable": {map[string]string{"dsn_env": "OTHER_DSN"}, "", "OTHER_DSN, which is not set in this environment"},
		"no file":     {map[string]string{"dsn_file": file + ".gone"}, "", "no such file"},
		"no address":  {map[string]string{}, "", "has no address"},
		"malformed":   {map[string]string{"dsn_env": "BAD_DSN"}, "", "malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			p := admin.Participant{Name: "bank", Kind: postgres.Kind, Settings: c.settings}
			pool, err := branchexec.OpenPostgres(t.Context(), p, env)
			if c.database == "" {
				if !errors.Is(err, txn.ErrInvalid) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret") {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			if got := pool.Config().ConnConfig.Database; got != c.database {
				t.Errorf("database %q, want %q", got, c.database)
			}
		})
	}
}

func TestOnlyWhatTakesStatementsIsOpened(t *testing.T) {
	for _, p := range []admin.Participant{
		{Name: "queue", Kind: "kafka"}, {Name: "stock", Kind: "ledger"}, {Name: "bank", Kind: postgres.Kind}, {Name: "shop", Kind: mariadb.Kind},
	} {
		if s, err := branchexec.Open(context.Background(), p, environment()); !errors.Is(err, txn.ErrInvalid) {
			t.Errorf("%s: %v, %v", p.Kind, s, err)
		}
	}
}

func TestWhereAMariaDBIs(t *testing.T) {
	for name, c := range map[string]struct{ dsn, says string }{
		"well formed":     {"u:secret@tcp(127.0.0.1:5)/shop", ""},
		"no database":     {"u:secret@tcp(127.0.0.1:5)/", "names no database"},
		"malformed":       {"u:secret@tcp(127.0.0.1:5", "malformed"},
		"of another kind": {"postgres://u:secret@127.0.0.1:5/shop", "malformed"},
		"a word as port":  {"u@tcp(127.0.0.1:secret)/shop", "malformed"},
		"bad option":      {"u:secret@tcp(127.0.0.1:5)/shop?parseTime=secret", "malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			p := admin.Participant{Name: "shop", Kind: mariadb.Kind, Settings: map[string]string{"dsn_env": "SHOP_DSN"}}
			pool, err := branchexec.OpenMariaDB(p, environment("SHOP_DSN", c.dsn))
			if c.says == "" {
				if err != nil {
					t.Fatal(err)
				}
				if err := pool.Close(); err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.Is(err, txn.ErrInvalid) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v", err)
			}
		})
	}
}
