package testdb

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if parent := os.Getenv(parentEnv); parent != "" {
		runParent(parent)
	}
	goleak.VerifyTestMain(m)
}

func TestKilledServerStartsAgainOnSamePortWithItsPreparedTransactions(t *testing.T) {
	p := OpenPostgres(t, PostgresConfig{})
	db := p.NewDatabase(t, "kill")
	ctx, port, pid := t.Context(), p.Port(), p.PID()

	busy, err := pgx.Connect(ctx, p.DSN(db))
	check(t, err)
	execSQL(t, busy, "CREATE TABLE t (n int)")
	execSQL(t, busy, "BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'kept'")
	slept := make(chan error, 1)
	go func() {
		_, err := busy.Exec(ctx, "SELECT pg_sleep(3600)")
		slept <- err
	}()

	check(t, p.Kill(ctx))
	if err := <-slept; err == nil {
		t.Error("a statement outlived the server")
	}
	if p.PID() != 0 {
		t.Errorf("a killed server has process id %d", p.PID())
	}
	if _, err := pgx.Connect(ctx, p.DSN(db)); err == nil {
		t.Error("a killed server answers")
	}
	check(t, p.Start(ctx))
	if p.Port() != port || p.PID() == pid {
		t.Errorf("after the restart: port %d, process %d; before: port %d, process %d", p.Port(), p.PID(), port, pid)
	}

	conn, err := pgx.Connect(ctx, p.DSN(db))
	check(t, err)
	execSQL(t, conn, "COMMIT PREPARED 'kept'")
	var n int
	check(t, conn.QueryRow(ctx, "SELECT sum(n) FROM t").Scan(&n))
	if n != 1 {
		t.Errorf("sum is %d, want 1", n)
	}
	check(t, conn.Close(ctx))
	check(t, p.Stop(ctx))
	check(t, p.Stop(ctx))
	check(t, p.Start(ctx))
	check(t, p.Start(ctx))
}

func TestCloseLeavesNothing(t *testing.T) {
	parent := reachable(t)
	p, err := StartPostgres(t.Context(), PostgresConfig{Parent: parent, NoFsync: true})
	check(t, err)
	pid := p.PID()
	check(t, p.Close())
	check(t, p.Close())
	left, err := os.ReadDir(parent)
	check(t, err)
	if len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("process %d: %v", pid, err)
	}
}

func TestSettings(t *testing.T) {
	p := OpenPostgres(t, PostgresConfig{MaxPrepared: -1, NoFsync: true, Settings: map[string]string{"cluster_name": "it's"}})
	conn, err := pgx.Connect(t.Context(), p.DSN("postgres"))
	check(t, err)
	defer func() { check(t, conn.Close(t.Context())) }()
	for name, want := range map[string]string{"max_prepared_transactions": "0", "fsync": "off", "cluster_name": "it's", "listen_addresses": "127.0.0.1"} {
		var got string
		check(t, conn.QueryRow(t.Context(), "SELECT current_setting($1)", name).Scan(&got))
		if got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestServerThatCannotStartShowsItsLog(t *testing.T) {
	parent := reachable(t)
	_, err := StartPostgres(t.Context(), PostgresConfig{Parent: parent, Settings: map[string]string{"nonsense": "1"}})
	if err == nil || !strings.Contains(err.Error(), `unrecognized configuration parameter "nonsense"`) {
		t.Errorf("error does not say why: %v", err)
	}
	left, err := os.ReadDir(parent)
	check(t, err)
	if len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestMissingServerSaysWhatToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := findPrograms(filepath.Join(t.TempDir(), "*", "bin"), "apt-get install postgresql", "postgres", "initdb")
	if !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "apt-get install postgresql") {
		t.Errorf("got %v", err)
	}
}

func TestNewestPackagedVersionIsFound(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	root := t.TempDir()
	for _, v := range []string{"9", "15", "18"} {
		bin := filepath.Join(root, v, "bin")
		check(t, os.MkdirAll(bin, 0o755))
		check(t, os.WriteFile(filepath.Join(bin, "postgres"), nil, 0o755))
		if v != "18" { // incomplete
			check(t, os.WriteFile(filepath.Join(bin, "initdb"), nil, 0o755))
		}
	}
	got, err := findPrograms(filepath.Join(root, "*", "bin"), "", "postgres", "initdb")
	check(t, err)
	if want := filepath.Join(root, "15", "bin"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// reachable is a directory that the server's account can reach.
func reachable(t *testing.T) string {
	t.Helper()
	parent := t.TempDir()
	for dir := parent; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		check(t, os.Chmod(dir, 0o755))
	}
	return parent
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func execSQL(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	_, err := conn.Exec(t.Context(), sql)
	check(t, err)
}
