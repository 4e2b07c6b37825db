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
	maxLines  = 20 // of locks, and of waiters
	maxTraced = 18 // branches whose locks are determined
)

// InspectLocks implements [participant.LockInspector]. It reports the locks of the first maxTraced
// branches with a marker row in this database; for others MariaDB does not provide them.
func (r *resourceManager) InspectLocks(ctx context.Context) (list []participant.PreparedDetails, err error) {
	ctx, fail := r.calls.Begin(ctx, "inspect locks")
	defer fail(&err)
	open, err := r.markers.Uncommitted(ctx, r.db)
	if err != nil {
		return nil, err
	}
	names, err := r.xaRecover(ctx)
	if err != nil {
		return nil, err
	}
	prepared := make([]participant.Prepared, len(names))
	for i, n := range names {
		prepared[i].XID = n.Text()
		delete(open, prepared[i].XID)
	}
	if err := r.markers.AddTimes(ctx, r.db, prepared); err != nil {
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
	open, err := r.markers.Uncommitted(ctx, r.db)
	if err != nil {
		return nil, err
	}
	names, err := r.xaRecover(ctx)
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		delete(open, n.Text())
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
