package health

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/postgres/internal/sqlstate"
)

// poolMode is how a pooler between the coordinator and the server assigns its connections.
type poolMode uint8

const (
	poolNone        poolMode = iota + 1 // there is no pooler
	poolTransaction                     // per transaction or statement
	poolSession                         // per session, as far as it could be determined
)

// poolProbes is how many connections try to get the backend of another one.
const poolProbes = 3

func (s Server) checkPooler(ctx context.Context) participant.Check {
	const subject = "pooler"
	ctx, fail := s.Calls.Begin(ctx, "detect a pooler")
	mode, err := s.poolMode(ctx)
	fail(&err)
	d := participant.Check{Level: participant.Warning, Subject: subject}
	switch {
	case err != nil:
		d.Message = fmt.Sprintf("whether there is a pooler could not be determined: %v", err)
	case mode == poolNone:
		return okCheck(subject, "none between the coordinator and the server; a pooler between the application and the server cannot be detected here: each branch needs a session of its own (pgbouncer: pool_mode=session)")
	case mode == poolTransaction:
		d.Level = participant.Failure
		d.Message = "a pooler assigns connections per transaction: branches can be committed and rolled back through it, but have to queue for that behind clients that wait for their locks; when those occupy all connections, nothing proceeds until they give up. Named prepared statements, which pgx uses by default, fail at random"
		d.Remedy = "connect to the server directly; or set pool_mode=session for this database in the pooler"
	default:
		d.Message = "there is a pooler, in session mode as far as could be determined: when clients that wait for locks occupy all its connections, the coordinator cannot end the connection that holds the locks"
		d.Remedy = "connect to the server directly, or give the coordinator a pool of its own there"
	}
	return d
}

// poolMode determines the mode by two tests. The process id that a server sends for the
// cancellation of statements is the backend's own; a pooler sends a number of its own. And if a
// connection has another backend than before, while another connection occupies the first one,
// the pooler has reassigned it.
func (s Server) poolMode(ctx context.Context) (mode poolMode, err error) {
	var all []*pgx.Conn
	defer func() {
		for _, conn := range all {
			err = errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
		}
	}()
	connect := func() (*pgx.Conn, uint32, error) {
		conf, err := s.Settings.Config()
		if err != nil {
			return nil, 0, err
		}
		conn, err := pgx.ConnectConfig(ctx, conf)
		if err != nil {
			return nil, 0, err
		}
		all = append(all, conn)
		pid, err := backend(ctx, conn)
		return conn, pid, err
	}
	first, pid, err := connect()
	if err != nil {
		return 0, err
	}
	if first.PgConn().PID() == pid {
		return poolNone, nil
	}
	for range poolProbes {
		other, _, err := connect()
		if err != nil {
			return 0, err
		}
		tx, err := other.Begin(ctx)
		if sqlstate.Of(err) != "" {
			return poolTransaction, nil // the pooler assigns per statement
		}
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, tx.Rollback(context.WithoutCancel(ctx))) }()
		taken, errTaken := backend(ctx, other)
		now, errNow := backend(ctx, first)
		if err := errors.Join(errTaken, errNow); err != nil {
			return 0, err
		}
		if taken == pid || now != pid {
			return poolTransaction, nil
		}
	}
	return poolSession, nil
}

// backend returns the process id of the backend that serves a connection now.
func backend(ctx context.Context, conn *pgx.Conn) (uint32, error) {
	var pid int32
	err := conn.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid)
	return uint32(pid), err
}
