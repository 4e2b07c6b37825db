package testdb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// patience bounds every single wait for a server.
const patience = 30 * time.Second

// startTries is how often a first start looks for another port.
const startTries = 5

// PostgresConfig configures a private PostgreSQL. The zero value is valid.
type PostgresConfig struct {
	// Parent is the directory in which the server's own is made. The server's
	// account must be able to reach it. Defaults to the system's for temporary
	// files.
	Parent string
	// MaxPrepared is max_prepared_transactions; negative means 0, which switches
	// them off. Defaults to 200.
	MaxPrepared int
	// NoFsync gives up durability in a crash of the machine (not of the server)
	// for speed. Defaults to false.
	NoFsync bool
	// Settings are further lines of postgresql.conf, by name. They beat what
	// this package chooses.
	Settings map[string]string
}

// Postgres is a private PostgreSQL server. Its superuser is postgres, whom it
// trusts without a password.
type Postgres struct {
	bin     string
	home    *serverDir
	account *account
	port    int

	mu  sync.Mutex // held while the server is being started or ended; guards run
	run *process   // nil: down
}

// StartPostgres makes a server and starts it. [ErrMissing]: it is not installed.
// Close must be called.
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
	p := &Postgres{bin: bin, home: home, account: a}
	if err := p.create(ctx, c); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (p *Postgres) create(ctx context.Context, c PostgresConfig) error {
	err := run(ctx, filepath.Join(p.bin, "initdb"), p.home.path, p.account,
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
	for try := 1; ; try++ {
		if p.port, err = freePort(); err != nil {
			return err
		}
		err = p.Start(ctx)
		if err == nil || try == startTries || !strings.Contains(err.Error(), "could not bind") {
			return err
		}
	}
}

// settings is what goes to postgresql.conf, where ALTER SYSTEM can overrule it.
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
		"logging_collector = off",
		"log_destination = stderr",
	}
	// The socket is a convenience; the path of a socket may have 107 bytes.
	if len(p.home.path) < 80 {
		lines = append(lines, "unix_socket_directories = '"+p.home.path+"'")
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

func (p *Postgres) data() string { return filepath.Join(p.home.path, "data") }

// Start starts a server that is down, on its data and its port, and waits until
// it answers. A server that is up stays as it is.
func (p *Postgres) Start(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run != nil {
		return nil
	}
	run, err := spawn(filepath.Join(p.bin, "postgres"), p.home.path, p.account, "-D", p.data(), "-p", fmt.Sprint(p.port))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := p.ready(ctx, run); err != nil {
		return errors.Join(err, run.end(ctx, syscall.SIGKILL))
	}
	p.run = run
	return nil
}

// ready asks the server until it answers.
func (p *Postgres) ready(ctx context.Context, run *process) error {
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		conn, err := pgx.Connect(ctx, p.DSN("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-run.gone:
			return fmt.Errorf("PostgreSQL did not start on port %d; %s", p.port, run.log)
		case <-ctx.Done():
			return fmt.Errorf("PostgreSQL does not answer on port %d: %w; %s", p.port, err, run.log)
		case <-again.C:
		}
	}
}

// Kill kills the server as a crash does (kill -9) and waits until all of it is
// gone, so that it can be started again.
func (p *Postgres) Kill(ctx context.Context) error { return p.end(ctx, syscall.SIGKILL) }

// Stop shuts the server down: sessions are cut off, data is kept.
func (p *Postgres) Stop(ctx context.Context) error { return p.end(ctx, syscall.SIGINT) }

func (p *Postgres) end(ctx context.Context, sig os.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := p.run.end(ctx, sig); err != nil {
		return fmt.Errorf("end PostgreSQL: %w", err)
	}
	p.run = nil
	return nil
}

// Close ends the server and removes all that belongs to it. It may be repeated.
func (p *Postgres) Close() error {
	err := p.end(context.Background(), syscall.SIGQUIT)
	return errors.Join(err, p.home.remove())
}

// Port is the server's TCP port on 127.0.0.1.
func (p *Postgres) Port() int { return p.port }

// PID is the process id of the running server, 0 when it is down.
func (p *Postgres) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil {
		return 0
	}
	return p.run.cmd.Process.Pid
}

// DSN says how to connect to a database of the server as its superuser.
func (p *Postgres) DSN(database string) string { return p.DSNAs("postgres", database) }

// DSNAs says how to connect as another user, whom the test has made.
func (p *Postgres) DSNAs(user, database string) string {
	return fmt.Sprintf("postgres://%s@%s:%d/%s?sslmode=disable", user, loopback, p.port, database)
}

// CreateDatabase makes an empty database.
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
