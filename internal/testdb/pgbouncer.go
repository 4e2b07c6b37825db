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
	"time"

	"github.com/jackc/pgx/v5"
)

// PgBouncerConfig configures a private pgbouncer. The zero value is valid.
type PgBouncerConfig struct {
	// Parent is the directory in which the pooler's own directory is created. Its account must be
	// able to reach it. Defaults to the system's directory for temporary files.
	Parent string
	// Mode is pool_mode: session, transaction or statement. Defaults to session.
	Mode string
	// Size is default_pool_size, the connections to the server for each user and
	// database. Defaults to 20.
	Size int
	// Users are the users beside postgres that may connect, without a password.
	Users []string
	// Settings are further lines of its configuration, by name. They take precedence over the
	// settings of this package.
	Settings map[string]string
}

// PgBouncer is a private connection pooler in front of a PostgreSQL.
type PgBouncer struct {
	dir  *serverDir
	port int
	run  *process
}

// StartPgBouncer starts a pooler in front of all databases of a server. It returns [ErrMissing] if
// pgbouncer is not installed. Close must be called.
func StartPgBouncer(ctx context.Context, server *Postgres, c PgBouncerConfig) (*PgBouncer, error) {
	bin, err := findPrograms("/usr/sbin", "apt-get install pgbouncer", "pgbouncer")
	if err != nil {
		return nil, err
	}
	a, err := newAccount("postgres", "nobody")
	if err != nil {
		return nil, err
	}
	home, err := newDir(c.Parent, "pgbouncer", a)
	if err != nil {
		return nil, err
	}
	b := &PgBouncer{dir: home}
	for try := 1; ; try++ {
		err := b.start(ctx, filepath.Join(bin, "pgbouncer"), a, server, c)
		if err == nil {
			return b, nil
		}
		if try == startTries || !strings.Contains(err.Error(), "address already in use") && !strings.Contains(err.Error(), "Address already in use") {
			return nil, errors.Join(err, b.Close())
		}
	}
}

func (b *PgBouncer) start(ctx context.Context, bin string, a *account, server *Postgres, c PgBouncerConfig) (err error) {
	if b.port, err = freePort(); err != nil {
		return err
	}
	users := ""
	for _, u := range append([]string{"postgres"}, c.Users...) {
		users += fmt.Sprintf("%q \"\"\n", u)
	}
	conf := filepath.Join(b.dir.path, "pgbouncer.ini")
	err = errors.Join(
		os.WriteFile(filepath.Join(b.dir.path, "users"), []byte(users), 0o644),
		os.WriteFile(conf, []byte(b.settings(server, c)), 0o644))
	if err != nil {
		return fmt.Errorf("configure pgbouncer: %w", err)
	}
	run, err := spawn(bin, b.dir.path, a, conf)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	if err := b.ready(ctx, run); err != nil {
		return errors.Join(err, run.end(ctx, syscall.SIGKILL))
	}
	b.run = run
	return nil
}

func (b *PgBouncer) settings(server *Postgres, c PgBouncerConfig) string {
	if c.Mode == "" {
		c.Mode = "session"
	}
	if c.Size == 0 {
		c.Size = 20
	}
	lines := []string{
		"[databases]",
		fmt.Sprintf("* = host=%s port=%d", loopback, server.Port()),
		"[pgbouncer]",
		"listen_addr = " + loopback,
		fmt.Sprintf("listen_port = %d", b.port),
		"unix_socket_dir =",
		"auth_type = trust",
		"auth_file = " + filepath.Join(b.dir.path, "users"),
		"ignore_startup_parameters = extra_float_digits",
		"pool_mode = " + c.Mode,
		fmt.Sprintf("default_pool_size = %d", c.Size),
	}
	var further []string
	for k, v := range c.Settings {
		further = append(further, k+" = "+v)
	}
	slices.Sort(further)
	return strings.Join(append(lines, further...), "\n") + "\n"
}

// ready waits until the pooler answers.
func (b *PgBouncer) ready(ctx context.Context, run *process) error {
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		conn, err := pgx.Connect(ctx, b.DSN("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-run.exited:
			return fmt.Errorf("pgbouncer did not start on port %d; %s", b.port, run.log)
		case <-ctx.Done():
			return fmt.Errorf("pgbouncer does not answer on port %d: %w; %s", b.port, err, run.log)
		case <-again.C:
		}
	}
}

// DSN is the DSN of a database of the server through the pooler, as postgres.
func (b *PgBouncer) DSN(database string) string { return b.DSNAs("postgres", database) }

// DSNAs is the DSN for another user, one of Users.
func (b *PgBouncer) DSNAs(user, database string) string {
	return fmt.Sprintf("postgres://%s@%s:%d/%s?sslmode=disable", user, loopback, b.port, database)
}

// Close ends the pooler, which closes its connections, and removes all its files. It may be
// repeated.
func (b *PgBouncer) Close() error {
	if b.run != nil {
		ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
		defer cancel()
		if err := b.run.end(ctx, syscall.SIGTERM); err != nil {
			return fmt.Errorf("end pgbouncer: %w", err)
		}
		b.run = nil
	}
	return b.dir.remove()
}

// OpenPgBouncer is [StartPgBouncer] for a test. It is closed with the test.
func OpenPgBouncer(tb TB, server *Postgres, c PgBouncerConfig) *PgBouncer {
	tb.Helper()
	b, err := StartPgBouncer(tb.Context(), server, c)
	if err != nil {
		tb.Fatalf("%v", err)
	}
	tb.Cleanup(func() {
		if err := b.Close(); err != nil {
			tb.Fatalf("%v", err)
		}
	})
	return b
}
