package testdb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// PostgresConfig configures a private PostgreSQL. The zero value is valid.
type PostgresConfig struct {
	// Parent is the directory in which the server's own directory is created. The server's account
	// must be able to reach it. Defaults to the system's directory for temporary files.
	Parent string
	// MaxPrepared is max_prepared_transactions; negative means 0, which switches
	// them off. Defaults to 200.
	MaxPrepared int
	// NoFsync gives up durability in a crash of the machine (not of the server)
	// for speed. Defaults to false.
	NoFsync bool
	// Settings are further lines of postgresql.conf, by name. They take precedence over the
	// settings of this package.
	Settings map[string]string
}

// Postgres is a private PostgreSQL server. Its superuser is postgres, who needs no password.
type Postgres struct {
	server
	bin string
}

// StartPostgres creates a server and starts it. It returns [ErrMissing] if PostgreSQL is not
// installed. Close must be called.
func StartPostgres(ctx context.Context, c PostgresConfig) (*Postgres, error) {
	bin, err := findPrograms("/usr/lib/postgresql/*/bin", "apt-get install postgresql", "postgres", "initdb")
	if err != nil {
		return nil, err
	}
	a, err := newAccount("postgres", "nobody")
	if err != nil {
		return nil, err
	}
	home, err := newDir(c.Parent, "postgres", a)
	if err != nil {
		return nil, err
	}
	p := newPostgres(bin, a, home)
	if err := p.create(ctx, c); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func newPostgres(bin string, a *account, home *serverDir) *Postgres {
	p := &Postgres{server: server{label: "PostgreSQL", dir: home, account: a, stop: syscall.SIGINT, quit: syscall.SIGQUIT}, bin: bin}
	p.command = func() []string {
		return []string{filepath.Join(bin, "postgres"), "-D", p.data(), "-p", fmt.Sprint(p.port)}
	}
	p.ping = p.answers
	return p
}

func (p *Postgres) create(ctx context.Context, c PostgresConfig) error {
	err := run(ctx, filepath.Join(p.bin, "initdb"), p.dir.path, p.account,
		"--pgdata", p.data(), "--username", "postgres", "--auth", "trust",
		"--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions")
	if err != nil {
		return err
	}
	settings, err := os.OpenFile(filepath.Join(p.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("configure PostgreSQL: %w", err)
	}
	_, err = settings.WriteString(p.settings(c))
	if err = errors.Join(err, settings.Close()); err != nil {
		return fmt.Errorf("configure PostgreSQL: %w", err)
	}
	return p.startOnFreePort(ctx, "could not bind")
}

// settings is the contents of postgresql.conf, which ALTER SYSTEM can override.
func (p *Postgres) settings(c PostgresConfig) string {
	if c.MaxPrepared == 0 {
		c.MaxPrepared = 200
	}
	fsync := "on"
	if c.NoFsync {
		fsync = "off"
	}
	lines := []string{
		"listen_addresses = '" + loopback + "'",
		fmt.Sprintf("max_prepared_transactions = %d", max(c.MaxPrepared, 0)),
		"fsync = " + fsync,
		"wal_keep_size = 256MB", // a standby that falls behind still finds the WAL that it lacks
		"logging_collector = off",
		"log_destination = stderr",
	}
	// The socket is a convenience; the path of a socket may have 107 bytes.
	if len(p.dir.path) < 80 {
		lines = append(lines, "unix_socket_directories = '"+p.dir.path+"'")
	} else {
		lines = append(lines, "unix_socket_directories = ''")
	}
	var further []string
	for k, v := range c.Settings {
		further = append(further, k+" = '"+strings.ReplaceAll(v, "'", "''")+"'")
	}
	slices.Sort(further)
	return "\n" + strings.Join(append(lines, further...), "\n") + "\n"
}

func (p *Postgres) data() string { return filepath.Join(p.dir.path, "data") }

func (p *Postgres) answers(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, p.DSN("postgres"))
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// DSN is the DSN of a database of the server, as its superuser.
func (p *Postgres) DSN(database string) string { return p.DSNAs("postgres", database) }

// DSNAs is the DSN for another user, whom the test has created.
func (p *Postgres) DSNAs(user, database string) string {
	return fmt.Sprintf("postgres://%s@%s:%d/%s?sslmode=disable", user, loopback, p.port, database)
}

// CreateDatabase creates an empty database.
func (p *Postgres) CreateDatabase(ctx context.Context, name string) error {
	conn, err := pgx.Connect(ctx, p.DSN("postgres"))
	if err != nil {
		return fmt.Errorf("create database %q: %w", name, err)
	}
	_, err = conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
	if err = errors.Join(err, conn.Close(ctx)); err != nil {
		return fmt.Errorf("create database %q: %w", name, err)
	}
	return nil
}
