package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/postgres/internal/sqlstate"
)

// The results of pg_xact_status, and two of this package.
const (
	xactCommitted   = "committed"
	xactAborted     = "aborted"
	xactInProgress  = "in progress"
	xactForgotten   = ""             // the commit log does not reach back that far
	xactNotAssigned = "not assigned" // the number was never assigned, or lost in a crash
)

// xactStatus is what the server reports about the transaction of a session reference.
type xactStatus struct {
	xid    uint64
	status string
	// crashRecovered: the server began a new lifetime after the backend started, by a crash, a
	// failover or a restore. The backend does not exist any more, and the number of a
	// transaction that wrote nothing to disk may have been assigned to another one.
	crashRecovered bool
	// certain: crashRecovered is known. Otherwise true means that it cannot be excluded.
	certain bool
	// startRecorded: the session reference identifies the server's lifetime in which the backend
	// started.
	startRecorded bool
	// received: the server's last recovery came further than the record that has the number.
	received      bool
	lineage       lineage
	lineageDetail string // the reason for lineage, for the operator
}

// statusText says for the operator what proves an outcome.
func (e xactStatus) statusText() string {
	return fmt.Sprintf("pg_xact_status(%d) = %s", e.xid, e.status)
}

// xactStatus asks the server for the status of the transaction of a session reference.
func (r *resourceManager) xactStatus(ctx context.Context, s SessionRef) (xactStatus, error) {
	// One query for all: between two, the server could begin a new lifetime.
	const look = `
		SELECT (SELECT system_identifier::text FROM pg_control_system()), pg_is_in_recovery(),
			pg_postmaster_start_time(), (SELECT stats_reset FROM pg_stat_get_archiver()),
			CASE WHEN NOT pg_is_in_recovery() THEN pg_walfile_name(pg_current_wal_lsn()) END,
			CASE WHEN NOT pg_is_in_recovery() THEN pg_current_wal_insert_lsn()::text END, pg_last_wal_replay_lsn()::text, `
	e := xactStatus{xid: s.XID, startRecorded: !s.Recovered.IsZero() || !s.Started.IsZero()}
	var system string
	var standby bool
	var started time.Time
	var recovered *time.Time
	var file, end, replayed, status *string
	err := r.pool.QueryRow(ctx, look+`pg_xact_status($1::text::xid8)`, fmt.Sprint(s.XID)).Scan(&system, &standby, &started, &recovered, &file, &end, &replayed, &status)
	if sqlstate.Of(err) == sqlstate.Invalid {
		future := xactNotAssigned
		err = r.pool.QueryRow(ctx, look+`NULL`).Scan(&system, &standby, &started, &recovered, &file, &end, &replayed, &status)
		status = &future
	}
	switch {
	case err != nil:
		return xactStatus{}, err
	case system != fmt.Sprint(s.System):
		return xactStatus{}, anotherServerError(s.System, system)
	case standby, file == nil, end == nil:
		return xactStatus{}, errStandby
	case status != nil:
		e.status = *status
	}
	var now timeline
	if now.id, err = parseTimeline(*file); err != nil {
		return xactStatus{}, err
	}
	if now.end, err = parseLSN(*end); err != nil {
		return xactStatus{}, err
	}
	if replayed != nil {
		if now.replayed, err = parseLSN(*replayed); err != nil {
			return xactStatus{}, err
		}
	}
	e.crashRecovered, e.certain = s.crashRecovered(started, recovered, now.replayed)
	if e.lineage, e.lineageDetail, err = r.lineage(ctx, s, now, e); e.lineage != sameTimeline {
		e.crashRecovered, e.certain = true, true
	}
	e.received = s.Written != 0 && lsn(s.Written) <= now.replayed
	return e, err
}

// errStandby is the error of a server that may not have what the primary has.
var errStandby = errors.New("the server is a standby, which cannot report the final outcome; connect to the primary, for example with target_session_attrs=read-write")

func anotherServerError(recorded uint64, here string) error {
	return fmt.Errorf("the application's connection is to another server (system identifier %d, not %s); register the server that the application uses", recorded, here)
}

// crashRecovered reports whether the server began a new lifetime since the backend started, and
// whether that is certain. Either of two values that is the same as in the session reference
// excludes it: the time of the statistics, which an orderly restart keeps and a manual reset
// changes; and the start of the postmaster together with the end of its last recovery, which an
// orderly restart changes and a manual reset keeps. If the reference identifies no lifetime, the
// server's times are compared, which relies on its clock.
func (s SessionRef) crashRecovered(started time.Time, recovered *time.Time, replayed lsn) (renewed, surely bool) {
	switch {
	case !s.Recovered.IsZero() && recovered != nil && recovered.Equal(s.Recovered):
		return false, false
	case !s.Started.IsZero() && started.Equal(s.Started):
		return replayed != lsn(s.Replayed), true
	case !s.Started.IsZero():
		return true, replayed != 0 // under a later postmaster, or one before it
	case !s.Recovered.IsZero(), recovered != nil && recovered.After(s.Start), started.After(s.Start):
		return true, replayed != 0 && started.After(s.Start)
	}
	return false, false
}

// outcome returns how the transaction ended and what proves it; zero while it is in progress.
// wasPrepared: the number was on disk with the prepare. Otherwise it reached the disk with the
// commit, if not earlier: after a crash, a number that is not committed proves that the branch is
// not committed, and a committed one may have been assigned again to another transaction. The
// same holds on another timeline, for a prepared branch too, unless its number is known to be in
// the timeline's history. For a branch that was not prepared no history is proof: a new primary
// does not know whether the old one crashed before.
func (e xactStatus) outcome(wasPrepared bool) (participant.BranchOutcome, string) {
	switch {
	case e.lineage == notInHistory:
		return participant.RolledBack, e.lineageDetail
	case e.status == xactAborted:
		return participant.RolledBack, e.statusText()
	case e.status == xactForgotten:
		return participant.Unknown, fmt.Sprintf("the server does not know transaction %d any more", e.xid)
	case e.status == xactCommitted && e.lineage == inHistory && wasPrepared:
		return participant.Committed, e.statusText() + "; " + e.lineageDetail
	case e.status == xactCommitted && e.lineage == inHistory:
		return participant.Unknown, e.statusText() + ", but the branch is not known to have been prepared, so the server may have lost the number in a crash before, and assigned it to another transaction: " + e.lineageDetail
	case e.status == xactCommitted && e.lineage == unknownHistory:
		return participant.Unknown, e.statusText() + ", but the server may have assigned the number to another transaction: " + e.lineageDetail
	case e.status == xactCommitted && wasPrepared:
		return participant.Committed, e.statusText()
	case e.status == xactCommitted && !e.startRecorded:
		return participant.Unknown, e.statusText() + ", but the session reference does not identify the lifetime of the server"
	case e.status == xactCommitted && e.crashRecovered && !e.certain:
		return participant.Unknown, e.statusText() + ", but it is not known whether the server has recovered from a crash since the connection was opened, and may have assigned the number to another transaction"
	case e.status == xactCommitted && e.crashRecovered:
		return participant.Unknown, e.statusText() + ", but the server has recovered from a crash, failed over or been restored since the connection was opened, and may have assigned the number to another transaction"
	case e.status == xactCommitted:
		return participant.Committed, e.statusText()
	case e.status == xactNotAssigned && e.lineage == unknownHistory:
		return participant.RolledBack, e.statusText() + ": " + e.lineageDetail + ", and it did not have the number"
	case e.status == xactNotAssigned && e.crashRecovered && !wasPrepared:
		return participant.RolledBack, e.statusText() + ": the server has recovered since the connection was opened, and the number never reached the disk"
	case e.status == xactNotAssigned:
		return participant.Unknown, e.statusText() + ": the server was restored to an earlier time"
	}
	return 0, ""
}

// reusedXIDDetail says why a transaction in progress is not the branch's.
func (e xactStatus) reusedXIDDetail() string {
	return fmt.Sprintf("the server has recovered since the connection was opened, and another transaction has the number %d: it never reached the disk", e.xid)
}

// inProgressError says why a branch that voted yes is neither prepared nor ended.
func (e xactStatus) inProgressError() error {
	if e.lineage == unknownHistory {
		return fmt.Errorf("it is not prepared under this name, and a transaction %d is in progress, which may be another's: %s", e.xid, e.lineageDetail)
	}
	return fmt.Errorf("it is not prepared under this name, and transaction %d is still in progress: its vote was wrong, or its work is prepared under another name", e.xid)
}
