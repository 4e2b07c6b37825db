package mariadb

import (
	"context"
	"fmt"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/internal/excerpt"
	"github.com/txmgr/txmgr/participant/mariadb/internal/markertable"
)

var _ participant.Inspector = (*resourceManager)(nil)

// Inspect implements [participant.Inspector].
func (r *resourceManager) Inspect(ctx context.Context, b participant.Branch) (_ participant.BranchReport, err error) {
	ctx, fail := r.calls.Begin(ctx, "inspect "+excerpt.Of(b.XID))
	defer fail(&err)
	t, err := r.task(b)
	if err != nil {
		return participant.BranchReport{}, err
	}
	return t.report(ctx)
}

// report determines a branch's present status. The list is read before the row, as in
// [task.notPrepared].
func (t *task) report(ctx context.Context) (w participant.BranchReport, err error) {
	if w.Prepared, err = t.r.isPrepared(ctx, t.n); err != nil {
		return w, err
	}
	row, err := t.r.markers.Kind(ctx, t.r.db, t.b.XID)
	if err == nil && row == markertable.None && t.s.hasMarker() {
		err = t.r.markers.CheckSame(ctx, t.r.db, t.s.Table)
	}
	switch {
	case err != nil:
		return w, err
	case row == markertable.Commit:
		w.Prepared, w.Outcome, w.Detail = false, participant.Committed, "its row is in "+string(t.r.markers)
		return w, nil
	case row == markertable.Barrier && !w.Prepared && !t.missingRowProves():
		w.Outcome, w.Detail = participant.Unknown, t.lostReason()
		return w, nil
	case row == markertable.Barrier && !w.Prepared:
		w.Outcome, w.Detail = participant.RolledBack, "a barrier is in "+string(t.r.markers)
		return w, nil
	}
	held, err := t.r.lockOwners(ctx, []string{t.b.XID})
	if err != nil {
		return w, err
	}
	h, isHeld := held[t.b.XID]
	w.Locks, w.Waiters = h.locks, h.waiters
	var hidden bool // its row is locked, and InnoDB has not reported by which transaction
	if !isHeld && !w.Prepared && t.r.markers != "" {
		if hidden, err = t.r.markers.Locked(ctx, t.r.db, t.b.XID); err != nil {
			return w, err
		}
		if row, err = t.r.markers.Kind(ctx, t.r.db, t.b.XID); err != nil {
			return w, err
		}
		if row == markertable.Commit { // it has committed meanwhile
			w.Outcome, w.Detail = participant.Committed, "its row is in "+string(t.r.markers)
			return w, nil
		}
	}
	dated := []participant.Prepared{{XID: t.b.XID}}
	if err := t.r.markers.AddTimes(ctx, t.r.db, dated); err != nil {
		return w, err
	}
	w.Since = dated[0].Since
	switch {
	case w.Prepared:
		w.Detail = "it is prepared"
	case isHeld && h.isOrphaned():
		w.Detail = errOrphaned.Error()
	case isHeld && h.waitsFor != "":
		w.Detail = fmt.Sprintf("connection %d waits for a lock: %s", h.conn, h.waitsFor)
	case isHeld:
		w.Detail = fmt.Sprintf("connection %d is at work", h.conn)
	case hidden:
		w.Detail = "its row is locked: its connection is at work, or its locks are orphaned, and InnoDB has not reported which (does another client read INNODB_TRX constantly?)"
	case t.s.hasMarker() && !t.missingRowProves():
		w.Outcome, w.Detail = participant.Unknown, t.lostReason()
	case t.s.hasMarker():
		w.Outcome, w.Detail = participant.RolledBack, "it is not prepared, and no row in "+string(t.r.markers)+" says that it was committed"
	case t.b.MayBeCommitted() || t.s.recorded():
		w.Outcome, w.Detail = participant.Unknown, "it is not prepared; "+t.noMarkerReason()
	default:
		w.Outcome, w.Detail = participant.RolledBack, "it is not prepared"
	}
	state, err := t.r.connection(ctx, t.s)
	w.Detail += state
	return w, err
}

// connection describes for the operator what the application's connection is doing.
func (r *resourceManager) connection(ctx context.Context, s SessionRef) (string, error) {
	if !s.recorded() {
		return "; no session reference is recorded", nil
	}
	found, err := r.texts(ctx, fmt.Sprintf("SELECT CONCAT('; its ', %s, ' is at ', COMMAND, ' for ', TIME, ' s') FROM information_schema.PROCESSLIST WHERE ID = %d AND %s = %d",
		whoQuery, s.Conn, startQuery, s.Start))
	if err != nil || len(found) == 0 {
		return fmt.Sprintf("; its connection %d has ended", s.Conn), err
	}
	return found[0], nil
}
