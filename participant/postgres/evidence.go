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
	// recorded says that the session recorded in which life it began.
	recorded bool
}

// proof says for people how an end is known.
func (e evidence) proof() string { return fmt.Sprintf("pg_xact_status(%d) = %s", e.xid, e.status) }

// evidence asks the server for the end of a session's transaction.
func (r *resource) evidence(ctx context.Context, s Session) (evidence, error) {
	// All in one look: between two, the server could begin a new life.
	const look = `
		SELECT (SELECT system_identifier::text FROM pg_control_system()), pg_is_in_recovery(),
			pg_postmaster_start_time(), (SELECT stats_reset FROM pg_stat_get_archiver()), `
	e := evidence{xid: s.XID, recorded: !s.Recovered.IsZero()}
	var system string
	var standby bool
	var started time.Time
	var recovered *time.Time
	var status *string
	err := r.pool.QueryRow(ctx, look+`pg_xact_status($1::text::xid8)`, fmt.Sprint(s.XID)).Scan(&system, &standby, &started, &recovered, &status)
	if stateOf(err) == stateInvalid {
		future := xactFuture
		err = r.pool.QueryRow(ctx, look+`NULL`).Scan(&system, &standby, &started, &recovered, &status)
		status = &future
	}
	switch {
	case err != nil:
		return evidence{}, err
	case system != fmt.Sprint(s.System):
		return evidence{}, fmt.Errorf("the application's session was on another server (system identifier %d, not %s); register the server that the application uses", s.System, system)
	case standby:
		return evidence{}, errors.New("the server is a standby, which knows no last word; connect to the primary, for example with target_session_attrs=read-write")
	case status != nil:
		e.status = *status
	}
	e.renewed = s.renewed(started, recovered)
	return e, nil
}

// renewed reports whether the server began a new life since the session began.
// Without a record of the life it began in, times tell: those of the server, which
// also means that its clock is trusted.
func (s Session) renewed(started time.Time, recovered *time.Time) bool {
	switch {
	case !s.Recovered.IsZero():
		return recovered == nil || !recovered.Equal(s.Recovered)
	case recovered != nil && recovered.After(s.Start):
		return true
	}
	return started.After(s.Start)
}

// ending says how a transaction ended, and how that is known; nothing while it is
// in progress. wasPrepared says that its number was on disk before. Otherwise it
// got there with its commit, if not sooner: after a crash a number that is not
// committed shows that ours is not either, and one that is may be another's, to
// which it was given again.
func (e evidence) ending(wasPrepared bool) (participant.Ending, string) {
	switch {
	case e.status == xactAborted:
		return participant.RolledBack, e.proof()
	case e.status == xactForgotten:
		return participant.Unknown, fmt.Sprintf("the server does not know transaction %d any more", e.xid)
	case e.status == xactCommitted && wasPrepared:
		return participant.Committed, e.proof()
	case e.status == xactCommitted && !e.recorded:
		return participant.Unknown, e.proof() + ", but the session did not record in which life of the server it began"
	case e.status == xactCommitted && e.renewed:
		return participant.Unknown, e.proof() + ", but the server has recovered from a crash, failed over or been restored since the session began, and may have given the number to another transaction"
	case e.status == xactCommitted:
		return participant.Committed, e.proof()
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
