package postgres

import (
	"context"
	"errors"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/internal/excerpt"
	"github.com/txmgr/txmgr/txn"
)

var _ participant.OutcomeResolver = (*resourceManager)(nil)

// ResolveOutcome implements [participant.OutcomeResolver]. A backend that still runs the branch's
// transaction is terminated; with fence=off the call waits for it to end by itself.
func (r *resourceManager) ResolveOutcome(ctx context.Context, b participant.Branch) (_ participant.Result, err error) {
	ctx, fail := r.call(ctx, "resolve the outcome of "+excerpt.Of(b.XID))
	defer fail(&err)
	if err := r.own(b); err != nil {
		return participant.Result{}, err
	}
	s, err := ParseSessionRef(b.SessionRef)
	if err != nil {
		return participant.Result{Outcome: participant.Unknown, Detail: "no session reference is recorded"}, nil
	}
	return pollUntilEnded(ctx, func(ctx context.Context) (participant.Result, error, error) { return r.resolveOnce(ctx, b, s) })
}

// resolveOnce makes one attempt. stillOpen says why another is needed.
func (r *resourceManager) resolveOnce(ctx context.Context, b participant.Branch, s SessionRef) (_ participant.Result, stillOpen, err error) {
	e, err := r.xactStatus(ctx, s)
	if err != nil {
		return participant.Result{}, nil, err
	}
	if ending, detail := e.outcome(b.Vote == txn.VotePrepared); ending != 0 {
		return participant.Result{Outcome: ending, Detail: detail}, nil, nil
	}
	anothers, stillOpen, err := r.terminateBackend(ctx, s, e)
	switch {
	case err != nil:
		return participant.Result{}, nil, err
	case anothers:
		return participant.Result{Outcome: participant.RolledBack, Detail: e.reusedXIDDetail()}, nil, nil
	case errors.Is(stillOpen, errPrepared):
		return participant.Result{}, nil, stillOpen // waiting does not help
	}
	return participant.Result{}, stillOpen, nil
}
