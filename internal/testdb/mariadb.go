package testdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/go-sql-driver/mysql"
)

// MariaDBConfig configures a private MariaDB. The zero value is valid.
type MariaDBConfig struct {
	// Parent is the directory in which the server's own directory is created. The server's account
	// must be able to reach it. Defaults to the system's directory for temporary files.
	Parent string
	// Binlog enables the binary log, without which MariaDB has no replicas. Defaults to false.
	Binlog bool
	// NoFsync gives up durability in a crash of the machine (not of the server)
	// for speed. Defaults to false.
	NoFsync bool
	// Settings are further options of the server, by name. They take precedence over the settings
	// of this package.
	Settings map[string]string
}

// MariaDB is a private MariaDB server. Its superuser is root, who needs no password from 127.0.0.1.
type MariaDB struct {
	server
	install string
}

// installMariaDB is the command that installs MariaDB.
const installMariaDB = "apt-get install mariadb-server"

// StartMariaDB creates a server and starts it. It returns [ErrMissing] if MariaDB is not installed.
// Close must be called.
func StartMariaDB(ctx context.Context, c MariaDBConfig) (*MariaDB, error) {
	dirs := []string{"/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin", "/usr/libexec"}
	daemon, err := findProgram("mariadbd", installMariaDB, dirs...)
	if err != nil {
		return nil, err
	}
	install, err := findProgram("mariadb-install-db", installMariaDB, dirs...)
	if err != nil {
		return nil, err
	}
	a, err := newAccount("mysql", "nobody")
	if err != nil {
		return nil, err
	}
	home, err := newDir(c.Parent, "mariadb", a)
	if err != nil {
		return nil, err
	}
	m := &MariaDB{server: server{label: "MariaDB", dir: home, account: a, stop: syscall.SIGTERM, quit: syscall.SIGKILL}, install: install}
	m.command = func() []string {
		return []string{daemon, "--defaults-file=" + m.settingsFile(), "--port=" + strconv.Itoa(m.port)}
	}
	m.ping = m.answers
	if err := m.create(ctx, c); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

func (m *MariaDB) create(ctx context.Context, c MariaDBConfig) error {
	// Servers remove files from their directory for temporary files that look like their own: it
	// must not be shared.
	temporary := filepath.Join(m.dir.path, "tmp")
	if err := errors.Join(os.Mkdir(temporary, 0o755), m.account.own(temporary)); err != nil {
		return fmt.Errorf("configure MariaDB: %w", err)
	}
	if err := os.WriteFile(m.settingsFile(), []byte(m.settings(c)), 0o644); err != nil {
		return fmt.Errorf("configure MariaDB: %w", err)
	}
	err := run(ctx, m.install, m.dir.path, m.account,
		"--defaults-file="+m.settingsFile(), "--auth-root-authentication-method=normal", "--skip-test-db")
	if err != nil {
		return err
	}
	return m.startOnFreePort(ctx, "Address already in use")
}

func (m *MariaDB) settingsFile() string { return filepath.Join(m.dir.path, "my.cnf") }

// settings is the option file. Of an option that is there twice the last one applies.
func (m *MariaDB) settings(c MariaDBConfig) string {
	lines := []string{
		"[mysqld]",
		option("datadir", filepath.Join(m.dir.path, "data")),
		option("tmpdir", filepath.Join(m.dir.path, "tmp")),
		option("bind-address", loopback),
		option("character-set-server", "utf8mb4"),
		option("innodb-buffer-pool-size", "64M"),
		option("innodb-log-file-size", "32M"),
		"skip-name-resolve",
	}
	// The socket is a convenience; the path of a socket may have 107 bytes.
	if len(m.dir.path) < 80 {
		lines = append(lines, option("socket", filepath.Join(m.dir.path, "socket")))
	} else {
		lines = append(lines, option("socket", ""))
	}
	if c.Binlog {
		lines = append(lines, option("log-bin", "binlog"), option("server-id", "1"), option("sync-binlog", "1"))
	}
	if c.NoFsync {
		lines = append(lines, option("innodb-flush-log-at-trx-commit", "2"), option("innodb-flush-method", "nosync"), option("sync-binlog", "0"))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Settings)) {
		lines = append(lines, option(name, c.Settings[name]))
	}
	return strings.Join(lines, "\n") + "\n"
}

var optionValue = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func option(name, value string) string { return name + ` = "` + optionValue.Replace(value) + `"` }

func (m *MariaDB) answers(ctx context.Context) error {
	db, err := m.open("")
	if err != nil {
		return err
	}
	return errors.Join(db.PingContext(ctx), db.Close())
}

// open opens a pool that does not log: a server that does not answer yet is no error.
func (m *MariaDB) open(database string) (*sql.DB, error) {
	c := m.config("root", database)
	c.Logger = log.New(io.Discard, "", 0)
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, fmt.Errorf("connect to MariaDB: %w", err)
	}
	return sql.OpenDB(connector), nil
}

// DSN is the DSN of a database of the server, as its superuser.
func (m *MariaDB) DSN(database string) string { return m.DSNAs("root", database) }

// DSNAs is the DSN for another user, whom the test has created.
func (m *MariaDB) DSNAs(user, database string) string { return m.config(user, database).FormatDSN() }

func (m *MariaDB) config(user, database string) *mysql.Config {
	c := mysql.NewConfig()
	c.User, c.DBName = user, database
	c.Net, c.Addr = "tcp", net.JoinHostPort(loopback, strconv.Itoa(m.port))
	return c
}

// CreateDatabase creates an empty database.
func (m *MariaDB) CreateDatabase(ctx context.Context, name string) error {
	db, err := m.open("")
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, "CREATE DATABASE `"+strings.ReplaceAll(name, "`", "``")+"`")
	if err = errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("create database %q: %w", name, err)
	}
	return nil
}
