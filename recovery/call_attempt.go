package recovery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/txmgr/txmgr/recovery/call"
	"github.com/txmgr/txmgr/recovery/plan"
)

// attemptResult is the result of one attempt.
type attemptResult struct {
	report           plan.BranchResult
	err              error
	stale            bool // the action is not needed any more
	called           bool // the participant was called
	participantFault bool // the error counts as a failure of the participant
	longBackoff      bool // the next attempt will fail in the same way, until an operator helps
	stopped          bool

	at   time.Time
	took time.Duration
}

// recheck reads in the log whether the item is still to be done, and how.
func (r *Recovery) recheck(it item) (plan.PendingTx, plan.Branch, bool) {
	w, ok := r.log.Pending(it.TX)
	if !ok {
		return plan.PendingTx{}, plan.Branch{}, false
	}
	b, ok := w.Branch(it.Branch, it.action)
	return w, b, ok
}

// attempt executes the action for a branch.
func (r *Recovery) attempt(ctx context.Context, action plan.Action, w plan.PendingTx, b plan.Branch) (o attemptResult) {
	limit, participantFault := r.cfg.CallTimeout, true
	if action == plan.Prepare {
		b.TimeLeft = w.TimeLeft
		if w.TimeLeft < limit {
			limit, participantFault = w.TimeLeft, false // it is not given the time that every call gets
			var cancel func()
			ctx, cancel = context.WithTimeout(ctx, limit)
			defer cancel()
		}
	}
	o.at = time.Now()
	defer func() { o.took = time.Since(o.at) }()
	p, err := r.log.Participant(ctx, b.Participant)
	if err != nil {
		o.err, o.participantFault = fmt.Errorf("open participant: %w", call.TimeoutError(ctx, limit, err)), participantFault
		return o
	}
	o.report, err = call.Do(ctx, p, b.Branch, action)
	if kind := (*call.UnsupportedError)(nil); errors.As(err, &kind) {
		o.err, o.longBackoff = err, true
		return o
	}
	o.err, o.called, o.participantFault = call.TimeoutError(ctx, limit, err), true, participantFault
	return o
}
