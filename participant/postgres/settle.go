package postgres

import (
	"context"
	"errors"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

var _ participant.Settler = (*resource)(nil)

// Settle implements [participant.Settler]. A session that still runs the branch's
// transaction is terminated; without leave to do so it has to end by itself first.
func (r *resource) Settle(ctx context.Context, b participant.Branch) (_ participant.Result, err error) {
	ctx, fail := r.call(ctx, "settle "+clip(b.XID))
	defer fail(&err)
	if err := r.own(b); err != nil {
		return participant.Result{}, err
	}
	s, err := ParseSession(b.Session)
	if err != nil {
		return participant.Result{Ending: participant.Unknown, Detail: "no session is on record"}, nil
	}
	return untilOver(ctx, func(ctx context.Context) (participant.Result, error, error) { return r.settle(ctx, b, s) })
}

// settle looks once. stillOpen says why it has to look again.
func (r *resource) settle(ctx context.Context, b participant.Branch, s Session) (_ participant.Result, stillOpen, err error) {
	e, err := r.evidence(ctx, s)
	if err != nil {
		return participant.Result{}, nil, err
	}
	if ending, detail := e.ending(b.Vote == txn.VotePrepared); ending != 0 {
		return participant.Result{Ending: ending, Detail: detail}, nil, nil
	}
	anothers, stillOpen, err := r.endOpen(ctx, s, e)
	switch {
	case err != nil:
		return participant.Result{}, nil, err
	case anothers:
		return participant.Result{Ending: participant.RolledBack, Detail: e.anothers()}, nil, nil
	case errors.Is(stillOpen, errPrepared):
		return participant.Result{}, nil, stillOpen // that is not for waiting
	}
	return participant.Result{}, stillOpen, nil
}
