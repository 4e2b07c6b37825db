package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/txmgr/txmgr/participant"
)

// The words of pg_xact_status, and two of ours.
const (
	xactCommitted   = "committed"
	xactAborted     = "aborted"
	xactInProgress  = "in progress"
	xactForgotten   = ""              // the commit log does not reach back so far
	xactNotAssigned = "not given out" // the number was never given out, or lost in a crash
)

// xactStatus is what a server knows of the transaction of a session.
type xactStatus struct {
	xid    uint64
	status string
	// crashRecovered says that the server began a new life after the session began, by a
	// crash, a failover or a restore: the session is gone, and the number of a
	// transaction that wrote nothing to disk may have been given to another since.
	crashRecovered bool
	// certain says that renewed is known. Otherwise it is possible, and not excluded.
	certain bool
	// startRecorded says that the session recorded in which life it began.
	startRecorded bool
	// received says that the log up to which the server recovered reaches beyond the
	// session's record of the number.
	received      bool
	lineage       lineage
	lineageDetail string // of line, for people
}

// statusText says for people how an end is known.
func (e xactStatus) statusText() string {
	return fmt.Sprintf("pg_xact_status(%d) = %s", e.xid, e.status)
}

// xactStatus asks the server for the end of a session's transaction.
func (r *resourceManager) xactStatus(ctx context.Context, s SessionRef) (xactStatus, error) {
	// All in one look: between two, the server could begin a new life.
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
	if stateOf(err) == stateInvalid {
		future := xactNotAssigned
		err = r.pool.QueryRow(ctx, look+`NULL`).Scan(&system, &standby, &started, &recovered, &file, &end, &replayed, &status)
		status = &future
	}
	switch {
	case err != nil:
		return xactStatus{}, err
	case system != fmt.Sprint(s.System):
		return xactStatus{}, fmt.Errorf("the application's session was on another server (system identifier %d, not %s); register the server that the application uses", s.System, system)
	case standby, file == nil, end == nil:
		return xactStatus{}, errors.New("the server is a standby, which knows no last word; connect to the primary, for example with target_session_attrs=read-write")
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

// crashRecovered reports whether the server began a new life since the session began, and
// whether that is sure. Either of two marks that is the same as in the session excludes
// it: the statistics' time, which is kept by an orderly restart and lost when they are
// reset by hand; and the postmaster with the end of its latest recovery, of which the
// contrary is true. Without a record of the life it began in, times tell: those of the
// server, which also means that its clock is trusted.
func (s SessionRef) crashRecovered(started time.Time, recovered *time.Time, replayed lsn) (renewed, surely bool) {
	switch {
	case !s.Recovered.IsZero() && recovered != nil && recovered.Equal(s.Recovered):
		return false, false
	case !s.Started.IsZero() && started.Equal(s.Started):
		return replayed != lsn(s.Replayed), true
	case !s.Started.IsZero():
		return true, replayed != 0 // by a later postmaster, or one before it
	case !s.Recovered.IsZero(), recovered != nil && recovered.After(s.Start), started.After(s.Start):
		return true, replayed != 0 && started.After(s.Start)
	}
	return false, false
}

// outcome says how a transaction ended, and how that is known; nothing while it is
// in progress. wasPrepared says that its number was on disk before. Otherwise it
// got there with its commit, if not sooner: after a crash a number that is not
// committed shows that ours is not either, and one that is may be another's, to
// which it was given again. The same holds on another timeline, also of what was
// prepared, unless that is known to be in its history. Of what was not prepared no
// history is proof: a new primary cannot tell whether the old one crashed before.
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
		return participant.Unknown, e.statusText() + ", but the branch is not known to have been prepared, so the server may have lost the number in a crash before, and given it to another transaction: " + e.lineageDetail
	case e.status == xactCommitted && e.lineage == unknownHistory:
		return participant.Unknown, e.statusText() + ", but the server may have given the number to another transaction: " + e.lineageDetail
	case e.status == xactCommitted && wasPrepared:
		return participant.Committed, e.statusText()
	case e.status == xactCommitted && !e.startRecorded:
		return participant.Unknown, e.statusText() + ", but the session did not record in which life of the server it began"
	case e.status == xactCommitted && e.crashRecovered && !e.certain:
		return participant.Unknown, e.statusText() + ", but it is not known whether the server has recovered from a crash since the session began, and may have given the number to another transaction"
	case e.status == xactCommitted && e.crashRecovered:
		return participant.Unknown, e.statusText() + ", but the server has recovered from a crash, failed over or been restored since the session began, and may have given the number to another transaction"
	case e.status == xactCommitted:
		return participant.Committed, e.statusText()
	case e.status == xactNotAssigned && e.lineage == unknownHistory:
		return participant.RolledBack, e.statusText() + ": " + e.lineageDetail + ", and it did not have the number"
	case e.status == xactNotAssigned && e.crashRecovered && !wasPrepared:
		return participant.RolledBack, e.statusText() + ": the server has recovered since the session began, and the number never reached the disk"
	case e.status == xactNotAssigned:
		return participant.Unknown, e.statusText() + ": the server was restored to an earlier time"
	}
	return 0, ""
}

// reusedXIDDetail says why a transaction in progress is not the session's.
func (e xactStatus) reusedXIDDetail() string {
	return fmt.Sprintf("the server has recovered since the session began, and another has transaction number %d: it never reached the disk", e.xid)
}

// inProgressError says why a branch that voted yes is neither prepared nor over.
func (e xactStatus) inProgressError() error {
	if e.lineage == unknownHistory {
		return fmt.Errorf("it is not prepared under this name, and a transaction %d is in progress, which may be another's: %s", e.xid, e.lineageDetail)
	}
	return fmt.Errorf("it is not prepared under this name, and transaction %d is still in progress: its vote was wrong, or its work is prepared under another name", e.xid)
}
