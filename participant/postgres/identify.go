package postgres

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// identity is the expressions that identify the backend, and make it assign the transaction's
// number. They also write a record with the number to the write-ahead log, without waiting for the
// disk: after a failover, the place of the record (LSN) shows whether the new primary had received
// a branch that was prepared. With logical decoding the consumers would see the record, so none is
// written. No setting changes the text of the values.
const identity = `pg_backend_pid(), pg_current_xact_id(), CASE WHEN current_setting('wal_level') <> 'logical'
	THEN pg_logical_emit_message(false, 'txmgr', pg_current_xact_id()::text) END`

// sessionKey is the key of the session reference that a connection caches.
const sessionKey = "txmgr.session"

// identify completes the branch's session reference, from the results of statements of which the
// last returned the relation of the marker row, or 0, and [identity] behind it. All fields that are not of
// the transaction stay the same while the backend lives, and the server reads files and the list
// of all backends for them; so a backend is queried for them once. If a pooler has assigned
// another backend, that one is queried again.
func (b *branch) identify(ctx context.Context, results []*pgconn.Result) error {
	conn := b.conn.Conn()
	if len(results) == 0 || len(results[len(results)-1].Rows) != 1 || len(results[len(results)-1].Rows[0]) < 4 {
		return errors.New("the server did not say which transaction has begun")
	}
	row := results[len(results)-1].Rows[0]
	relation, errRelation := strconv.ParseUint(string(row[0]), 10, 32)
	pid, errPID := strconv.ParseUint(string(row[1]), 10, 32)
	xid, errXID := strconv.ParseUint(string(row[2]), 10, 64)
	var written lsn
	var errWritten error
	if row[3] != nil {
		written, errWritten = parseLSN(string(row[3]))
	}
	if err := errors.Join(errRelation, errPID, errXID, errWritten); err != nil {
		return err
	}
	kept := conn.PgConn().CustomData()
	s, known := kept[sessionKey].(SessionRef)
	if !known || s.PID != uint32(pid) {
		var err error
		if s, err = identifyBackend(ctx, conn); err != nil {
			return err
		}
		if !s.Recovered.IsZero() { // the server knows it only some time after its start
			kept[sessionKey] = s
		}
	}
	s.XID, s.Written, s.Table = xid, uint64(written), b.sessionRef.Table
	b.sessionRef, b.marked = s.bounded(), relation != 0
	if b.marked && uint32(relation) != s.Table.Relation {
		return errTableReplaced
	}
	return nil
}

// identifyBackend queries the fields that stay the same while a backend lives. It calls the
// archiver's function, because the view pg_stat_archiver would leave a lock on itself in the
// branch.
func identifyBackend(ctx context.Context, conn *pgx.Conn) (s SessionRef, err error) {
	var pid int32
	var system, file string
	var recovered *time.Time
	var replayed *string
	err = conn.QueryRow(ctx, `
		SELECT pid, backend_start, (SELECT system_identifier::text FROM pg_control_system()),
			(SELECT stats_reset FROM pg_stat_get_archiver()), pg_walfile_name(pg_current_wal_lsn()),
			pg_postmaster_start_time(), pg_last_wal_replay_lsn()::text
		FROM pg_stat_get_activity(pg_backend_pid())`).Scan(&pid, &s.Start, &system, &recovered, &file, &s.Started, &replayed)
	if err != nil {
		return SessionRef{}, err
	}
	s.PID = uint32(pid)
	if recovered != nil {
		s.Recovered = *recovered
	}
	if s.System, err = strconv.ParseUint(system, 10, 64); err != nil {
		return SessionRef{}, err
	}
	if s.Timeline, err = parseTimeline(file); err != nil || replayed == nil {
		return s, err
	}
	at, err := parseLSN(*replayed)
	s.Replayed = uint64(at)
	return s, err
}
