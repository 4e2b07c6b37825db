package testdb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Backup takes a base backup of the running server. It is a server of its own, which
// has not been started: [Postgres.Follow], [Postgres.Recover] and [Postgres.Restore]
// do that. Close must be called.
func (p *Postgres) Backup(ctx context.Context) (*Postgres, error) {
	home, err := newDir(filepath.Dir(p.dir.path), "postgres", p.account)
	if err != nil {
		return nil, err
	}
	b := newPostgres(p.bin, p.account, home)
	err = run(ctx, filepath.Join(p.bin, "pg_basebackup"), home.path, p.account,
		"--host", loopback, "--port", fmt.Sprint(p.port), "--username", "postgres", "--pgdata", b.data(),
		"--wal-method", "stream", "--checkpoint", "fast", "--no-sync")
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// Follow starts a backup as a streaming hot standby. name is its application_name, for
// synchronous_standby_names of the primary. It returns when the standby can be read from, which may
// be before it has caught up.
func (p *Postgres) Follow(ctx context.Context, primary *Postgres, name string) error {
	return p.startRecovery(ctx, "standby.signal", "wal_retrieve_retry_interval = '100ms'", // how soon it finds a restarted primary
		fmt.Sprintf("primary_conninfo = 'host=%s port=%d user=postgres application_name=%s'", loopback, primary.port, name))
}

// Recover starts a backup as a point-in-time recovery does: with what source has
// written to its write-ahead log up to a restore point (pg_create_restore_point).
// It returns when the server takes writes, on a timeline of its own.
func (p *Postgres) Recover(ctx context.Context, source *Postgres, restorePoint string) error {
	err := p.startRecovery(ctx, "recovery.signal",
		fmt.Sprintf("restore_command = 'cp \"%s/%%f\" \"%%p\"'", filepath.Join(source.data(), "pg_wal")),
		fmt.Sprintf("recovery_target_name = '%s'", restorePoint),
		"recovery_target_action = promote")
	if err != nil {
		return err
	}
	return p.promoted(ctx)
}

// Restore starts a backup as it is. The server continues from the moment of the backup, on the same
// timeline, as if nothing had been done since.
func (p *Postgres) Restore(ctx context.Context) error { return p.startRecovery(ctx, "") }

// startRecovery starts a backup for the first time, on a port of its own.
func (p *Postgres) startRecovery(ctx context.Context, signal string, settings ...string) error {
	lines := "\nunix_socket_directories = ''\n" + strings.Join(settings, "\n") + "\n"
	conf, err := os.OpenFile(filepath.Join(p.data(), "postgresql.auto.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = conf.WriteString(lines)
		err = errors.Join(err, conf.Close())
	}
	if err == nil && signal != "" {
		err = os.WriteFile(filepath.Join(p.data(), signal), nil, 0o644)
	}
	if err != nil {
		return fmt.Errorf("configure PostgreSQL: %w", err)
	}
	return p.startOnFreePort(ctx, "could not bind")
}

// Promote makes a standby a primary, with what it has received. It returns when the
// server takes writes.
func (p *Postgres) Promote(ctx context.Context) error {
	if err := p.exec(ctx, "SELECT pg_promote(wait => false) WHERE pg_is_in_recovery()"); err != nil {
		return fmt.Errorf("promote PostgreSQL: %w", err)
	}
	return p.promoted(ctx)
}

// promoted waits for the end of recovery.
func (p *Postgres) promoted(ctx context.Context) error {
	return p.await(ctx, "SELECT NOT pg_is_in_recovery()")
}

// Synchronize makes a running standby of the server synchronous: every commit and prepare waits for
// it from then on; "" makes all asynchronous.
func (p *Postgres) Synchronize(ctx context.Context, name string) error {
	err := p.exec(ctx, "ALTER SYSTEM SET synchronous_standby_names = '"+name+"'")
	if err == nil {
		err = p.exec(ctx, "SELECT pg_reload_conf()")
	}
	switch {
	case err != nil:
		return fmt.Errorf("configure PostgreSQL: %w", err)
	case name == "":
		return p.await(ctx, "SELECT current_setting('synchronous_standby_names') = ''")
	}
	err = p.await(ctx, "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum') AND state = 'streaming' AND application_name = '"+name+"')")
	if err != nil {
		return err
	}
	// Backends wait for the standby only when the checkpointer has read the configuration, which it does
	// before the next checkpoint. A commit that has waited has brought the standby all that was before it.
	if err := p.exec(ctx, "CHECKPOINT"); err != nil {
		return err
	}
	return p.exec(ctx, "SELECT pg_current_xact_id()")
}

// exec runs a statement that may be repeated, until it succeeds.
func (p *Postgres) exec(ctx context.Context, statement string) error {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	return retry(ctx, nil, func() error {
		conn, err := pgx.Connect(ctx, p.DSN("postgres"))
		if err != nil {
			return err
		}
		_, err = conn.Exec(ctx, statement)
		return errors.Join(err, conn.Close(ctx))
	})
}

// await repeats a query until its answer is true.
func (p *Postgres) await(ctx context.Context, question string) error {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	return retry(ctx, nil, func() error {
		conn, err := pgx.Connect(ctx, p.DSN("postgres"))
		if err != nil {
			return err
		}
		var yes bool
		err = conn.QueryRow(ctx, question).Scan(&yes)
		if err == nil && !yes {
			err = fmt.Errorf("not yet: %s", question)
		}
		return errors.Join(err, conn.Close(ctx))
	})
}
