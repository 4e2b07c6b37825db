package mariadb

import (
	"context"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/internal/excerpt"
)

var _ participant.OutcomeResolver = (*resourceManager)(nil)

// ResolveOutcome implements [participant.OutcomeResolver].
func (r *resourceManager) ResolveOutcome(ctx context.Context, b participant.Branch) (_ participant.Result, err error) {
	ctx, fail := r.call(ctx, "resolve the outcome of "+excerpt.Of(b.XID))
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
