package mariadb

import (
	"context"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/internal/excerpt"
	"github.com/txmgr/txmgr/participant/mariadb/internal/markertable"
)

var (
	_ participant.OutcomeResolver = (*resourceManager)(nil)
	_ participant.OutcomeReader   = (*resourceManager)(nil)
)

// ResolveOutcome implements [participant.OutcomeResolver].
func (r *resourceManager) ResolveOutcome(ctx context.Context, b participant.Branch) (_ participant.Result, err error) {
	ctx, fail := r.calls.Begin(ctx, "resolve the outcome of "+excerpt.Of(b.XID))
	defer fail(&err)
	t, err := r.task(b)
	if err != nil {
		return participant.Result{}, err
	}
	if !t.s.hasMarker() {
		return participant.Result{Outcome: participant.Unknown, Detail: t.noMarkerReason()}, nil
	}
	t.resolveOnly = true
	return t.poll(ctx, t.rollbackByBarrier)
}

// ReadOutcome implements [participant.OutcomeReader]. Only a marker row is taken for proof.
func (r *resourceManager) ReadOutcome(ctx context.Context, b participant.Branch) (_ participant.Result, known bool, err error) {
	ctx, fail := r.calls.Begin(ctx, "read the outcome of "+excerpt.Of(b.XID))
	defer fail(&err)
	t, err := r.task(b)
	if err != nil || !t.s.hasMarker() {
		return participant.Result{}, false, err
	}
	row, err := r.markers.Kind(ctx, r.db, b.XID)
	switch {
	case err != nil:
		return participant.Result{}, false, err
	case row == markertable.None:
		return participant.Result{}, false, r.markers.CheckSame(ctx, r.db, t.s.Table)
	}
	res, err := t.byMarker(ctx, row)
	unproved := res.why != nil || res.Outcome == participant.Unknown
	if err != nil || unproved {
		return participant.Result{}, false, err
	}
	return res.Result, true, nil
}
