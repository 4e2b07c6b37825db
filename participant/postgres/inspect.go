package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/internal/excerpt"
	"github.com/txmgr/txmgr/participant/postgres/internal/markertable"
	"github.com/txmgr/txmgr/participant/postgres/internal/sqltext"
	"github.com/txmgr/txmgr/txn"
)

var _ participant.Inspector = (*resourceManager)(nil)

// Inspect implements [participant.Inspector].
func (r *resourceManager) Inspect(ctx context.Context, b participant.Branch) (_ participant.BranchReport, err error) {
	ctx, fail := r.calls.Begin(ctx, "inspect "+excerpt.Of(b.XID))
	defer fail(&err)
	if err := r.own(b); err != nil {
		return participant.BranchReport{}, err
	}
	t, found, err := r.inspectPrepared(ctx, b)
	if err != nil || found {
		return t, err
	}
	t.Detail = "it is not prepared; no session reference is recorded"
	s, err := ParseSessionRef(b.SessionRef)
	if err != nil {
		t.Outcome = participant.Unknown
		return t, nil
	}
	if r.provedByMarker(s) {
		switch kind, err := r.markerRow(ctx, b.XID, s); {
		case err != nil:
			return t, err
		case kind == markertable.Commit:
			t.Outcome, t.Detail = participant.Committed, "its row is in "+string(r.markers)
			return t, nil
		case kind != markertable.None && !b.BeforeRestore:
			t.Outcome, t.Detail = participant.RolledBack, "a barrier is in "+string(r.markers)
			return t, nil
		}
	}
	e, err := r.xactStatus(ctx, s)
	if err != nil {
		return t, err
	}
	if t.Outcome, t.Detail = e.outcome(b.Vote == txn.VotePrepared); t.Outcome == 0 {
		return r.inspectOpen(ctx, s)
	}
	t.Detail = "it is not prepared; " + t.Detail
	return t, nil
}

// inspectPrepared reports on a branch that is prepared.
func (r *resourceManager) inspectPrepared(ctx context.Context, b participant.Branch) (t participant.BranchReport, found bool, err error) {
	all, err := r.preparedAs(ctx, b.XID)
	if err != nil || len(all) == 0 {
		return t, false, err
	}
	p := all[0]
	t = participant.BranchReport{Prepared: true, Since: p.Since, Detail: "prepared by " + p.Owner}
	if !p.inThisDatabase {
		t.Detail += ", which is not the registered one: register that database"
	}
	l, err := r.locks(ctx)
	if err != nil {
		return t, false, err
	}
	t.Locks, t.Waiters = l.heldBy(p.holder), l.waitersFor(p.holder)
	return t, true, nil
}

// inspectOpen reports on a branch whose transaction is in progress.
func (r *resourceManager) inspectOpen(ctx context.Context, s SessionRef) (t participant.BranchReport, err error) {
	var state, query, user, application string
	var since *time.Time
	err = r.pool.QueryRow(ctx, `
		SELECT coalesce(state, 'hidden from this user'), state_change, coalesce(query, ''), coalesce(usename, ''), coalesce(application_name, '')
		FROM pg_stat_activity
		WHERE pid = $1 AND (backend_start IS NULL OR backend_start = $2 AND backend_xid = ($3::text::xid8)::xid)`,
		s.PID, s.Start, fmt.Sprint(s.XID)).Scan(&state, &since, &query, &user, &application)
	if errors.Is(err, pgx.ErrNoRows) {
		return r.inspectNotInBackend(ctx, s)
	}
	if err != nil {
		return t, err
	}
	t.Detail = fmt.Sprintf("its connection is open: process %d, user %s", s.PID, user)
	if application != "" {
		t.Detail += ", application " + excerpt.Of(application)
	}
	t.Detail += ", " + state
	if since != nil {
		t.Detail += " since " + formatTime(*since)
	}
	t.Detail += ": " + sqltext.Summarize(query)
	l, err := r.locks(ctx)
	if err != nil {
		return t, err
	}
	holder := fmt.Sprint(s.PID)
	t.Locks, t.Waiters = l.heldBy(holder), l.waitersFor(holder)
	return t, nil
}

// inspectNotInBackend reports on a transaction that was in progress, and that its backend does
// not run.
func (r *resourceManager) inspectNotInBackend(ctx context.Context, s SessionRef) (t participant.BranchReport, err error) {
	var name string
	err = r.pool.QueryRow(ctx, `SELECT coalesce(min(gid), '') FROM pg_prepared_xacts WHERE transaction = ($1::text::xid8)::xid`, fmt.Sprint(s.XID)).Scan(&name)
	if err != nil {
		return t, err
	}
	e, err := r.xactStatus(ctx, s) // the transaction may have ended meanwhile
	switch {
	case err != nil:
		return t, err
	case e.status != xactInProgress:
		t.Outcome, t.Detail = e.outcome(false)
	case name != "":
		t.Detail = fmt.Sprintf("transaction %d is prepared under the name %q", s.XID, excerpt.Of(name))
	case e.crashRecovered:
		t.Outcome, t.Detail = participant.RolledBack, e.reusedXIDDetail()
	default:
		t.Detail = fmt.Sprintf("transaction %d is in progress, but not in process %d", s.XID, s.PID)
	}
	return t, nil
}
