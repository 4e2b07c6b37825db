package mariadb

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/txmgr/txmgr/participant"
)

// Bounds of the inspection of locks.
const (
	maxLines      = 20     // of locks, and of waiters
	maxTraced     = 18     // branches whose locks are determined
	maxMarkerRows = 100000 // marker rows that are read to find branches with orphaned locks
)

// InspectLocks implements [participant.LockInspector]. It reports the locks of the first maxTraced
// branches with a marker row in this database; for others MariaDB does not provide them.
func (r *resourceManager) InspectLocks(ctx context.Context) (list []participant.PreparedDetails, err error) {
	ctx, fail := r.call(ctx, "survey")
	defer fail(&err)
	open, err := r.uncommittedBranches(ctx)
	if err != nil {
		return nil, err
	}
	names, err := r.xaRecover(ctx)
	if err != nil {
		return nil, err
	}
	prepared := make([]participant.Prepared, len(names))
	for i, n := range names {
		prepared[i].XID = n.text()
		delete(open, prepared[i].XID)
	}
	if err := r.addTimes(ctx, prepared); err != nil {
		return nil, err
	}
	held, err := r.lockOwners(ctx, chooseTraced(open, prepared))
	if err != nil {
		return nil, err
	}
	for _, p := range prepared {
		h := held[p.XID]
		list = append(list, participant.PreparedDetails{Prepared: p, Locks: h.locks, Waiters: h.waiters})
	}
	lost, err := r.confirmOrphaned(ctx, orphanedBranches(open, held))
	return append(list, lost...), err
}

// orphanConfirmDelay is the time after which orphaned locks are checked again: a branch that
// changed its state meanwhile is not orphaned.
const orphanConfirmDelay = 300 * time.Millisecond

// confirmOrphaned keeps the branches that are still neither finished nor prepared after
// orphanConfirmDelay.
func (r *resourceManager) confirmOrphaned(ctx context.Context, ghosts []participant.PreparedDetails) ([]participant.PreparedDetails, error) {
	if len(ghosts) == 0 {
		return nil, nil
	}
	moment := time.NewTimer(orphanConfirmDelay)
	defer moment.Stop()
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-moment.C:
	}
	open, err := r.uncommittedBranches(ctx)
	if err != nil {
		return nil, err
	}
	names, err := r.xaRecover(ctx)
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		delete(open, n.text())
	}
	return slices.DeleteFunc(ghosts, func(h participant.PreparedDetails) bool {
		_, still := open[h.XID]
		return !still
	}), nil
}

// chooseTraced chooses the branches whose locks are determined: first the oldest that may be
// orphaned, since most of the others are just at work; then prepared ones.
func chooseTraced(open map[string]participant.Prepared, prepared []participant.Prepared) (xids []string) {
	oldest := slices.SortedFunc(maps.Values(open), func(a, b participant.Prepared) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.XID, b.XID))
	})
	for _, p := range oldest[:min(len(oldest), maxTraced/3)] {
		xids = append(xids, p.XID)
	}
	for _, p := range prepared {
		if p.Owner != "" && len(xids) < maxTraced {
			xids = append(xids, p.XID)
		}
	}
	return xids
}

// orphanedBranches returns the branches that are neither finished nor prepared, and whose locks
// belong to no connection.
func orphanedBranches(open map[string]participant.Prepared, held map[string]lockOwner) (list []participant.PreparedDetails) {
	for xid, p := range open {
		if h, found := held[xid]; found && h.isOrphaned() {
			list = append(list, participant.PreparedDetails{Prepared: p, Locks: h.locks, Waiters: h.waiters, Orphaned: true})
		}
	}
	return list
}

// uncommittedBranches returns the branches whose marker row is not committed.
func (r *resourceManager) uncommittedBranches(ctx context.Context) (map[string]participant.Prepared, error) {
	open := map[string]participant.Prepared{}
	if r.markers == "" {
		return open, nil
	}
	first := fmt.Sprintf("TRUE ORDER BY xid LIMIT %d", maxMarkerRows)
	err := r.readUncommitted(ctx, first, func(p participant.Prepared) { open[p.XID] = p })
	if err != nil || len(open) == 0 {
		return open, err
	}
	rows, err := r.db.QueryContext(ctx, "SELECT xid FROM "+r.markers.quoted()+" WHERE "+first)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // rows.Err reports the error
	for rows.Next() {
		var xid string
		if err := rows.Scan(&xid); err != nil {
			return nil, err
		}
		delete(open, xid)
	}
	return open, rows.Err()
}

// Inspect implements [participant.Inspector].
func (r *resourceManager) Inspect(ctx context.Context, b participant.Branch) (_ participant.BranchReport, err error) {
	ctx, fail := r.call(ctx, "inspect "+clip(b.XID))
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
	row, err := t.r.marker(ctx, t.b.XID)
	if err == nil && row == markerNone && t.s.hasMarker() {
		err = t.r.checkSameTable(ctx, t.s)
	}
	switch {
	case err != nil:
		return w, err
	case row == markerCommit:
		w.Prepared, w.Outcome, w.Detail = false, participant.Committed, "its row is in "+string(t.r.markers)
		return w, nil
	case row == markerBarrier && !w.Prepared:
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
		if hidden, err = t.r.markerLocked(ctx, t.b.XID); err != nil {
			return w, err
		}
		if row, err = t.r.marker(ctx, t.b.XID); err != nil {
			return w, err
		}
		if row == markerCommit { // it has committed meanwhile
			w.Outcome, w.Detail = participant.Committed, "its row is in "+string(t.r.markers)
			return w, nil
		}
	}
	dated := []participant.Prepared{{XID: t.b.XID}}
	if err := t.r.addTimes(ctx, dated); err != nil {
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
		w.Detail = "its row is locked: it is at work or lost, and InnoDB has not said which of them (does another client read INNODB_TRX constantly?)"
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
		return "; no session is on record", nil
	}
	found, err := r.texts(ctx, fmt.Sprintf("SELECT CONCAT('; its ', %s, ' is at ', COMMAND, ' for ', TIME, ' s') FROM information_schema.PROCESSLIST WHERE ID = %d AND %s = %d",
		whoQuery, s.Conn, startQuery, s.Start))
	if err != nil || len(found) == 0 {
		return fmt.Sprintf("; its connection %d has gone", s.Conn), err
	}
	return found[0], nil
}

// whoQuery describes a connection of PROCESSLIST. Its statement is not shown: it may contain
// confidential data.
const whoQuery = "CONCAT('connection ', ID, ' (', USER, '@', HOST, ', database ', COALESCE(DB, '-'), ')')"

// limitLines keeps the first maxLines lines, and states how many more there are.
func limitLines(all []string) []string {
	if len(all) <= maxLines {
		return all
	}
	return append(all[:maxLines:maxLines], fmt.Sprintf("and %d more", len(all)-maxLines))
}
