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
	xactCommitted  = "committed"
	xactAborted    = "aborted"
	xactInProgress = "in progress"
	xactForgotten  = ""              // the commit log does not reach back so far
	xactFuture     = "not given out" // the number was never given out, or lost in a crash
)

// evidence is what a server knows of the transaction of a session.
type evidence struct {
	xid    uint64
	status string
	// renewed says that the server began a new life after the session began, by a
	// crash, a failover or a restore: the session is gone, and the number of a
	// transaction that wrote nothing to disk may have been given to another since.
	renewed bool
	// surely says that renewed is known. Otherwise it is possible, and not excluded.
	surely bool
	// recorded says that the session recorded in which life it began.
	recorded bool
	// reached says that the log up to which the server recovered reaches beyond the
	// session's record of the number.
	reached bool
	line    lineage
	why     string // of line, for people
}

// proof says for people how an end is known.
func (e evidence) proof() string { return fmt.Sprintf("pg_xact_status(%d) = %s", e.xid, e.status) }

// evidence asks the server for the end of a session's transaction.
func (r *resource) evidence(ctx context.Context, s Session) (evidence, error) {
	// All in one look: between two, the server could begin a new life.
	const look = `
		SELECT (SELECT system_identifier::text FROM pg_control_system()), pg_is_in_recovery(),
			pg_postmaster_start_time(), (SELECT stats_reset FROM pg_stat_get_archiver()),
			CASE WHEN NOT pg_is_in_recovery() THEN pg_walfile_name(pg_current_wal_lsn()) END,
			CASE WHEN NOT pg_is_in_recovery() THEN pg_current_wal_insert_lsn()::text END, pg_last_wal_replay_lsn()::text, `
	e := evidence{xid: s.XID, recorded: !s.Recovered.IsZero() || !s.Started.IsZero()}
	var system string
	var standby bool
	var started time.Time
	var recovered *time.Time
	var file, end, replayed, status *string
	err := r.pool.QueryRow(ctx, look+`pg_xact_status($1::text::xid8)`, fmt.Sprint(s.XID)).Scan(&system, &standby, &started, &recovered, &file, &end, &replayed, &status)
	if stateOf(err) == stateInvalid {
		future := xactFuture
		err = r.pool.QueryRow(ctx, look+`NULL`).Scan(&system, &standby, &started, &recovered, &file, &end, &replayed, &status)
		status = &future
	}
	switch {
	case err != nil:
		return evidence{}, err
	case system != fmt.Sprint(s.System):
		return evidence{}, fmt.Errorf("the application's session was on another server (system identifier %d, not %s); register the server that the application uses", s.System, system)
	case standby, file == nil, end == nil:
		return evidence{}, errors.New("the server is a standby, which knows no last word; connect to the primary, for example with target_session_attrs=read-write")
	case status != nil:
		e.status = *status
	}
	var now timeline
	if now.id, err = parseTimeline(*file); err != nil {
		return evidence{}, err
	}
	if now.end, err = parseLSN(*end); err != nil {
		return evidence{}, err
	}
	if replayed != nil {
		if now.replayed, err = parseLSN(*replayed); err != nil {
			return evidence{}, err
		}
	}
	e.renewed, e.surely = s.renewed(started, recovered, now.replayed)
	if e.line, e.why, err = r.lineage(ctx, s, now, e); e.line != sameTimeline {
		e.renewed, e.surely = true, true
	}
	e.reached = s.Written != 0 && lsn(s.Written) <= now.replayed
	return e, err
}

// renewed reports whether the server began a new life since the session began, and
// whether that is sure. Either of two marks that is the same as in the session excludes
// it: the statistics' time, which is kept by an orderly restart and lost when they are
// reset by hand; and the postmaster with the end of its latest recovery, of which the
// contrary is true. Without a record of the life it began in, times tell: those of the
// server, which also means that its clock is trusted.
func (s Session) renewed(started time.Time, recovered *time.Time, replayed lsn) (renewed, surely bool) {
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

// ending says how a transaction ended, and how that is known; nothing while it is
// in progress. wasPrepared says that its number was on disk before. Otherwise it
// got there with its commit, if not sooner: after a crash a number that is not
// committed shows that ours is not either, and one that is may be another's, to
// which it was given again. The same holds on another timeline, also of what was
// prepared, unless that is known to be in its history. Of what was not prepared no
// history is proof: a new primary cannot tell whether the old one crashed before.
func (e evidence) ending(wasPrepared bool) (participant.Ending, string) {
	switch {
	case e.line == without:
		return participant.RolledBack, e.why
	case e.status == xactAborted:
		return participant.RolledBack, e.proof()
	case e.status == xactForgotten:
		return participant.Unknown, fmt.Sprintf("the server does not know transaction %d any more", e.xid)
	case e.status == xactCommitted && e.line == inherited && wasPrepared:
		return participant.Committed, e.proof() + "; " + e.why
	case e.status == xactCommitted && e.line == inherited:
		return participant.Unknown, e.proof() + ", but the branch is not known to have been prepared, so the server may have lost the number in a crash before, and given it to another transaction: " + e.why
	case e.status == xactCommitted && e.line == otherTimeline:
		return participant.Unknown, e.proof() + ", but the server may have given the number to another transaction: " + e.why
	case e.status == xactCommitted && wasPrepared:
		return participant.Committed, e.proof()
	case e.status == xactCommitted && !e.recorded:
		return participant.Unknown, e.proof() + ", but the session did not record in which life of the server it began"
	case e.status == xactCommitted && e.renewed && !e.surely:
		return participant.Unknown, e.proof() + ", but it is not known whether the server has recovered from a crash since the session began, and may have given the number to another transaction"
	case e.status == xactCommitted && e.renewed:
		return participant.Unknown, e.proof() + ", but the server has recovered from a crash, failed over or been restored since the session began, and may have given the number to another transaction"
	case e.status == xactCommitted:
		return participant.Committed, e.proof()
	case e.status == xactFuture && e.line == otherTimeline:
		return participant.RolledBack, e.proof() + ": " + e.why + ", and it did not have the number"
	case e.status == xactFuture && e.renewed && !wasPrepared:
		return participant.RolledBack, e.proof() + ": the server has recovered since the session began, and the number never reached the disk"
	case e.status == xactFuture:
		return participant.Unknown, e.proof() + ": the server was restored to an earlier time"
	}
	return 0, ""
}

// anothers says why a transaction in progress is not the session's.
func (e evidence) anothers() string {
	return fmt.Sprintf("the server has recovered since the session began, and another has transaction number %d: it never reached the disk", e.xid)
}

// inProgress says why a branch that voted yes is neither prepared nor over.
func (e evidence) inProgress() error {
	if e.line == otherTimeline {
		return fmt.Errorf("it is not prepared under this name, and a transaction %d is in progress, which may be another's: %s", e.xid, e.why)
	}
	return fmt.Errorf("it is not prepared under this name, and transaction %d is still in progress: its vote was wrong, or its work is prepared under another name", e.xid)
}
