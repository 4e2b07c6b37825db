package recovery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/txmgr/txmgr/internal/redact"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// attemptResult is the result of one attempt.
type attemptResult struct {
	report           BranchResult
	err              error
	stale            bool // the action is not needed any more
	called           bool // the participant was called
	participantFault bool // the error counts as a failure of the participant
	longBackoff      bool // the next attempt will fail in the same way, until an operator helps
	stopped          bool

	at   time.Time
	took time.Duration
}

// unsupportedError is the error of a participant that lacks a method which one of its
// branches needs.
type unsupportedError struct{ what string }

func (e *unsupportedError) Error() string { return e.what }

// recheck reads in the log whether the item is still to be done, and how.
func (r *Recovery) recheck(it item) (PendingTx, Branch, bool) {
	w, ok := r.log.Pending(it.TX)
	if !ok {
		return PendingTx{}, Branch{}, false
	}
	b, ok := w.branch(it)
	return w, b, ok
}

// attempt executes the action for a branch.
func (r *Recovery) attempt(ctx context.Context, action Action, w PendingTx, b Branch) (o attemptResult) {
	limit, participantFault := r.cfg.CallTimeout, true
	if action == Prepare {
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
		o.err, o.participantFault = fmt.Errorf("open participant: %w", timeoutError(ctx, limit, err)), participantFault
		return o
	}
	o.report, err = call(ctx, p, b.Branch, action)
	if kind := (*unsupportedError)(nil); errors.As(err, &kind) {
		o.err, o.longBackoff = err, true
		return o
	}
	o.err, o.called, o.participantFault = timeoutError(ctx, limit, err), true, participantFault
	return o
}

// timeoutError tells the operator that a call timed out, and after how long.
func timeoutError(ctx context.Context, limit time.Duration, err error) error {
	if err == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("no answer within %v: %w", limit.Round(time.Millisecond), err)
}

// recoverPanic, deferred, turns a panic of a participant into an error: a bug in one
// driver must not stop the other participants' work.
func recoverPanic(err *error) {
	if x := recover(); x != nil {
		*err = fmt.Errorf("participant panicked: %v", x)
	}
}

// call makes one call and evaluates the answer.
func call(ctx context.Context, p participant.Participant, b participant.Branch, v Action) (rep BranchResult, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%v: %w", v, err)
		}
	}()
	defer recoverPanic(&err)
	var res participant.Result
	switch v {
	case Prepare:
		return prepare(ctx, p, b)
	case ResolveOutcome:
		res, err = resolveOutcome(ctx, p, b)
	case Commit:
		res, err = p.Commit(ctx, b)
	case Rollback:
		res, err = p.Rollback(ctx, b)
	}
	if err != nil {
		return BranchResult{}, err
	}
	return toResult(b.ID, v, res)
}

func prepare(ctx context.Context, p participant.Participant, b participant.Branch) (BranchResult, error) {
	preparer, ok := p.(participant.Preparer)
	if !ok {
		return BranchResult{}, &unsupportedError{"this kind of participant is prepared by the application; " +
			"register it without coordinator_prepares"}
	}
	vote, detail, err := preparer.Prepare(ctx, b)
	if errors.Is(err, txn.ErrEndedByApplication) {
		return BranchResult{Branch: b.ID, Vote: txn.VoteEndedByApplication, Detail: redact.Text(err.Error())}, nil
	}
	if err != nil {
		return BranchResult{}, err
	}
	switch vote {
	case txn.VotePrepared, txn.VoteReadOnly, txn.VoteNo, txn.VoteEndedByApplication:
		return BranchResult{Branch: b.ID, Vote: vote, Detail: redact.Text(detail)}, nil
	}
	return BranchResult{}, fmt.Errorf("the participant answered vote %v", vote)
}

func resolveOutcome(ctx context.Context, p participant.Participant, b participant.Branch) (participant.Result, error) {
	resolver, ok := p.(participant.OutcomeResolver)
	if !ok {
		return participant.Result{}, &unsupportedError{"the decision was delegated to a branch of a participant that " +
			"cannot tell afterwards how it ended; find out by hand, and report it with the branch's end"}
	}
	return resolver.ResolveOutcome(ctx, b)
}

// toResult turns an outcome into a result: done when it is the decided outcome, or
// itself the decision; a heuristic outcome when it is not.
func toResult(id txn.BranchID, v Action, res participant.Result) (BranchResult, error) {
	rep := BranchResult{Branch: id, Detail: redact.Text(res.Detail)}
	switch {
	case res.Outcome == participant.Unknown:
		rep.Heuristic = txn.HeuristicHazard
	case res.Outcome == participant.Committed && v != Rollback:
		rep.State = txn.BranchCommitted
	case res.Outcome == participant.Committed:
		rep.Heuristic = txn.HeuristicCommit
	case res.Outcome == participant.RolledBack && v != Commit:
		rep.State = txn.BranchRolledBack
	case res.Outcome == participant.RolledBack:
		rep.Heuristic = txn.HeuristicRollback
	default:
		return BranchResult{}, fmt.Errorf("the participant answered ending %v", res.Outcome)
	}
	return rep, nil
}
