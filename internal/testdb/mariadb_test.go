package testdb

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestKilledMariaDBStartsAgainOnSamePortWithItsPreparedTransactions(t *testing.T) {
	m := OpenMariaDB(t, MariaDBConfig{})
	database := m.NewDatabase(t, "kill")
	ctx, port, pid := t.Context(), m.Port(), m.PID()

	conn := connect(t, m.DSN(database))
	for _, statement := range []string{
		"CREATE TABLE t (n int) ENGINE=InnoDB",
		"XA START 'kept'", "INSERT INTO t VALUES (1)", "XA END 'kept'", "XA PREPARE 'kept'",
	} {
		_, err := conn.ExecContext(ctx, statement)
		check(t, err)
	}
	busy := connect(t, m.DSN(database))
	slept := make(chan error, 1)
	go func() {
		_, err := busy.ExecContext(ctx, "DO SLEEP(3600)")
		slept <- err
	}()

	check(t, m.Kill(ctx))
	if err := <-slept; err == nil {
		t.Error("a statement outlived the server")
	}
	if m.PID() != 0 {
		t.Errorf("a killed server has process id %d", m.PID())
	}
	if err := m.answers(ctx); err == nil {
		t.Error("a killed server answers")
	}
	check(t, m.Start(ctx))
	if m.Port() != port || m.PID() == pid {
		t.Errorf("after the restart: port %d, process %d; before: port %d, process %d", m.Port(), m.PID(), port, pid)
	}

	conn = connect(t, m.DSN(database))
	_, err := conn.ExecContext(ctx, "XA COMMIT 'kept'")
	check(t, err)
	var n int
	check(t, conn.QueryRowContext(ctx, "SELECT sum(n) FROM t").Scan(&n))
	if n != 1 {
		t.Errorf("sum is %d, want 1", n)
	}
	check(t, m.Stop(ctx))
	check(t, m.Stop(ctx))
	check(t, m.Start(ctx))
	check(t, m.Start(ctx))
}

func TestMariaDBCloseLeavesNothing(t *testing.T) {
	parent := reachable(t)
	m, err := StartMariaDB(t.Context(), MariaDBConfig{Parent: parent, NoFsync: true})
	check(t, err)
	pid := m.PID()
	check(t, m.Close())
	check(t, m.Close())
	left, err := os.ReadDir(parent)
	check(t, err)
	if len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("process %d: %v", pid, err)
	}
}

func TestMariaDBSettings(t *testing.T) {
	for name, c := range map[string]struct {
		config MariaDBConfig
		want   map[string]string
	}{
		"zero value": {MariaDBConfig{}, map[string]string{
			"log_bin": "0", "innodb_flush_log_at_trx_commit": "1", "bind_address": "127.0.0.1", "skip_name_resolve": "1",
		}},
		"all": {MariaDBConfig{Binlog: true, NoFsync: true, Settings: map[string]string{"init_connect": `SET @a = "it's \\"`, "innodb-buffer-pool-size": "32M"}}, map[string]string{
			"log_bin": "1", "innodb_flush_log_at_trx_commit": "2", "init_connect": `SET @a = "it's \\"`, "innodb_buffer_pool_size": strconv.Itoa(32 << 20),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m := OpenMariaDB(t, c.config)
			conn := connect(t, m.DSN(""))
			for name, want := range c.want {
				var got string
				check(t, conn.QueryRowContext(t.Context(), "SELECT @@GLOBAL."+name).Scan(&got))
				if got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
		})
	}
}

func TestMariaDBUserOfATest(t *testing.T) {
	m := OpenMariaDB(t, MariaDBConfig{NoFsync: true})
	database := m.NewDatabase(t, "of`a")
	if again := m.NewDatabase(t, "of`a"); again == database {
		t.Error("a name was used twice")
	}
	root := connect(t, m.DSN(""))
	_, err := root.ExecContext(t.Context(), "CREATE USER app@'127.0.0.1'")
	check(t, err)
	_, err = root.ExecContext(t.Context(), "GRANT ALL ON *.* TO app@'127.0.0.1'")
	check(t, err)
	var user, used string
	check(t, connect(t, m.DSNAs("app", database)).QueryRowContext(t.Context(), "SELECT CURRENT_USER(), DATABASE()").Scan(&user, &used))
	if user != "app@127.0.0.1" || used != database {
		t.Errorf("user %s, database %s; want app and %s", user, used, database)
	}
}

func TestMariaDBThatCannotStartShowsItsLog(t *testing.T) {
	parent := reachable(t)
	_, err := StartMariaDB(t.Context(), MariaDBConfig{Parent: parent, Settings: map[string]string{"nonsense": "1"}})
	if err == nil || !strings.Contains(err.Error(), "unknown variable 'nonsense=1'") {
		t.Errorf("error does not say why: %v", err)
	}
	left, err := os.ReadDir(parent)
	check(t, err)
	if len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestMissingMariaDBSaysWhatToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := findProgram("mariadbd", installMariaDB, t.TempDir())
	if !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "apt-get install mariadb-server") {
		t.Errorf("got %v", err)
	}
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, "mariadbd"), nil, 0o755))
	if got, err := findProgram("mariadbd", "", t.TempDir(), dir); got != filepath.Join(dir, "mariadbd") {
		t.Errorf("got %s, %v", got, err)
	}
}

// connect opens one connection, which is closed with the test.
func connect(t *testing.T, dsn string) *sql.Conn {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	check(t, err)
	t.Cleanup(func() { check(t, db.Close()) })
	conn, err := db.Conn(context.WithoutCancel(t.Context()))
	check(t, err)
	t.Cleanup(func() { _ = conn.Close() }) // the server may have closed it
	return conn
}
