package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txmgr/txmgr/participant/mariadb"
	"github.com/txmgr/txmgr/participant/postgres"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// prepareConns is the number of connections that prepare the expiring transactions.
const prepareConns = 16

// expiringSet is a set of transactions that are about to expire, with a coordinator of its own.
type expiringSet struct {
	*hungCase
	databases
	program string
	dir     string
	due     int
	lead    time.Duration

	server *server
	deaf   *unresponsiveServer
	until  time.Time // the deadline of all
}

const unresponsiveName = "deaf"

func (b *expiringSet) run(ctx context.Context) (e expiration, err error) {
	if b.deaf, err = newUnresponsiveServer(); err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, b.deaf.Close()) }()
	if b.server, err = serve(ctx, b.program, b.dir); err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, b.server.Close()) }()
	err = b.server.Admin().AddParticipant(ctx, admin.Participant{Name: bankName, Kind: postgres.Kind, Settings: map[string]string{"dsn": b.pg.DSN(bankName)}}, "", "")
	if err == nil && (b.Others > 0 || b.Same) {
		err = b.server.Admin().AddParticipant(ctx, admin.Participant{Name: unresponsiveName, Kind: mariadb.Kind, Settings: map[string]string{"dsn": b.deaf.dsn()}}, "", "")
	}
	if err != nil {
		return e, err
	}
	b.until = time.Now().Add(b.lead)
	began := time.Now()
	if err := b.fill(ctx); err != nil {
		return e, err
	}
	e.Making = time.Since(began)
	if left := time.Until(b.until); left < 0 {
		return e, fmt.Errorf("it took %v to prepare %d: a longer -lead helps", e.Making, b.due)
	}
	return b.watch(ctx, e)
}

// fill prepares the branches, on connections that are closed before the deadline: their application
// has crashed.
func (b *expiringSet) fill(ctx context.Context) error {
	pool, err := pgxpool.New(ctx, fmt.Sprintf("%s&pool_max_conns=%d", b.pg.DSN(bankName), prepareConns))
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, "DROP TABLE IF EXISTS account; CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL)", pgx.QueryExecModeSimpleProtocol); err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, "INSERT INTO account SELECT i, 0 FROM generate_series(1, $1) i", b.due); err != nil {
		return err
	}
	err = inParallel(b.due, func(i int) error { return b.abandon(ctx, pool, i) })
	if err == nil && b.Others > 0 {
		err = inParallel(b.Others, func(int) error {
			_, err := b.server.Begin(ctx, txn.Options{Timeout: time.Until(b.until), Branches: []txn.Enlistment{{Participant: unresponsiveName}}})
			return err
		})
	}
	return err
}

// inParallel calls do times times, several at once, until one fails.
func inParallel(times int, do func(i int) error) error {
	var wg sync.WaitGroup
	errs := make([]error, prepareConns)
	for m := range prepareConns {
		wg.Go(func() {
			for i := m; i < times && errs[m] == nil; i += prepareConns {
				errs[m] = do(i)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// sessionQuery returns the session reference of a connection, as in docs/start.md.
const sessionQuery = `
	SELECT format('pid=%s start=%s xid=%s system=%s', pid, to_char(backend_start AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
		pg_current_xact_id(), (SELECT system_identifier FROM pg_control_system()))
	FROM pg_stat_get_activity(pg_backend_pid())`

// abandon begins a transaction, does its work, prepares it, and makes no further call.
func (b *expiringSet) abandon(ctx context.Context, pool *pgxpool.Pool, i int) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, "BEGIN"); err != nil {
		return err
	}
	var session string
	if err := conn.QueryRow(ctx, sessionQuery).Scan(&session); err != nil {
		return err
	}
	branches := []txn.Enlistment{{Participant: bankName, SessionRef: session}}
	if b.Same {
		branches = append(branches, txn.Enlistment{Participant: unresponsiveName})
	}
	begun, err := b.server.Begin(ctx, txn.Options{Timeout: time.Until(b.until), Branches: branches})
	if err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "UPDATE account SET balance = 1 WHERE id = $1", i+1); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "PREPARE TRANSACTION '"+begun.Branches[0].XID+"'")
	return err
}

// watch measures until no branch is prepared.
func (b *expiringSet) watch(ctx context.Context, e expiration) (expiration, error) {
	conn, err := pgx.Connect(ctx, b.pg.DSN(bankName))
	if err != nil {
		return e, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	prepared := func() (n int, err error) {
		err = conn.QueryRow(ctx, "SELECT count(*) FROM pg_prepared_xact()").Scan(&n)
		return n, err
	}
	if e.Prepared, err = prepared(); err != nil || e.Prepared != b.due {
		return e, fmt.Errorf("%d branches are prepared before the deadline, and not %d: %w", e.Prepared, b.due, err)
	}
	select {
	case <-time.After(time.Until(b.until)):
	case <-ctx.Done():
		return e, ctx.Err()
	}
	server, errServer := b.server.process.CPU()
	pg, _, errPG := b.databases.cpu()
	if err := errors.Join(errServer, errPG); err != nil {
		return e, err
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for left := e.Prepared; left > 0; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return e, ctx.Err()
		}
		if left, err = prepared(); err != nil {
			return e, err
		}
		e.Span = time.Since(b.until)
		if left < e.Prepared && e.First == 0 {
			e.First = e.Span
		}
		if left <= e.Prepared/100 && e.Most == 0 {
			e.Most = e.Span
		}
		if e.Span > 5*time.Minute {
			return e, fmt.Errorf("%d branches are still prepared %v after the deadline", left, e.Span)
		}
	}
	e.Conns = b.deaf.connCount()
	serverNow, errServer := b.server.process.CPU()
	pgNow, _, errPG := b.databases.cpu()
	e.Coord, e.Postgres = serverNow-server, pgNow-pg
	s, errStatus := b.server.Admin().Status(ctx)
	e.Completing = s.Completing
	return e, errors.Join(errServer, errPG, errStatus)
}
