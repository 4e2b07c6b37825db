package recovery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// outcome is what came of one attempt.
type outcome struct {
	report  Report
	err     error
	stale   bool // nothing to be done any more, or something else
	called  bool // the participant was called
	blame   bool // the error speaks against the participant
	slow    bool // the same will come of the next attempt, until a person helps
	stopped bool

	at   time.Time
	took time.Duration
}

// errKind is the error of a participant that lacks a method which one of its
// branches needs.
type errKind struct{ what string }

func (e *errKind) Error() string { return e.what }

// still asks the log whether the item is to be done now, and how.
func (r *Recovery) still(it item) (Work, Branch, bool) {
	w, ok := r.log.Undone(it.TX)
	if !ok {
		return Work{}, Branch{}, false
	}
	b, ok := w.branch(it)
	return w, b, ok
}

// attempt does what is to be done with a branch.
func (r *Recovery) attempt(ctx context.Context, verb Verb, w Work, b Branch) (o outcome) {
	limit, blame := r.cfg.CallTimeout, true
	if verb == Prepare {
		b.TimeLeft = w.TimeLeft
		if w.TimeLeft < limit {
			limit, blame = w.TimeLeft, false // it is not given the time that every call gets
			var cancel func()
			ctx, cancel = context.WithTimeout(ctx, limit)
			defer cancel()
		}
	}
	o.at = time.Now()
	defer func() { o.took = time.Since(o.at) }()
	p, err := r.log.Participant(ctx, b.Participant)
	if err != nil {
		o.err, o.blame = fmt.Errorf("open participant: %w", overdue(ctx, limit, err)), blame
		return o
	}
	o.report, err = call(ctx, p, b.Branch, verb)
	if kind := (*errKind)(nil); errors.As(err, &kind) {
		o.err, o.slow = err, true
		return o
	}
	o.err, o.called, o.blame = overdue(ctx, limit, err), true, blame
	return o
}

// overdue says in the words of an operator that a call ran out of its time.
func overdue(ctx context.Context, limit time.Duration, err error) error {
	if err == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("no answer within %v: %w", limit.Round(time.Millisecond), err)
}

// unpanic, deferred, turns a panic of a participant into an error: one driver's
// bug must not stop the others' work.
func unpanic(err *error) {
	if x := recover(); x != nil {
		*err = fmt.Errorf("participant panicked: %v", x)
	}
}

// call makes one call and judges the answer.
func call(ctx context.Context, p participant.Participant, b participant.Branch, v Verb) (rep Report, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%v: %w", v, err)
		}
	}()
	defer unpanic(&err)
	var res participant.Result
	switch v {
	case Prepare:
		return ask(ctx, p, b)
	case Settle:
		res, err = settle(ctx, p, b)
	case Commit:
		res, err = p.Commit(ctx, b)
	case Rollback:
		res, err = p.Rollback(ctx, b)
	}
	if err != nil {
		return Report{}, err
	}
	return judge(b.ID, v, res)
}

func ask(ctx context.Context, p participant.Participant, b participant.Branch) (Report, error) {
	asker, ok := p.(participant.Preparer)
	if !ok {
		return Report{}, &errKind{"this kind of participant is prepared by the application; " +
			"register it without coordinator_prepares"}
	}
	vote, detail, err := asker.Prepare(ctx, b)
	if errors.Is(err, txn.ErrEndedByHand) {
		return Report{Branch: b.ID, Vote: txn.VoteEndedByHand, Detail: plain(err.Error())}, nil
	}
	if err != nil {
		return Report{}, err
	}
	switch vote {
	case txn.VotePrepared, txn.VoteReadOnly, txn.VoteNo, txn.VoteEndedByHand:
		return Report{Branch: b.ID, Vote: vote, Detail: plain(detail)}, nil
	}
	return Report{}, fmt.Errorf("the participant answered vote %v", vote)
}

func settle(ctx context.Context, p participant.Participant, b participant.Branch) (participant.Result, error) {
	settler, ok := p.(participant.Settler)
	if !ok {
		return participant.Result{}, &errKind{"the decision was delegated to a branch of a participant that " +
			"cannot tell afterwards how it ended; find out by hand, and report it with the branch's end"}
	}
	return settler.Settle(ctx, b)
}

// judge turns an ending into a report: done when it is the one that was decided,
// or itself the decision; a hazard when it is not.
func judge(id txn.BranchID, v Verb, res participant.Result) (Report, error) {
	rep := Report{Branch: id, Detail: plain(res.Detail)}
	switch {
	case res.Ending == participant.Unknown:
		rep.Hazard = txn.HazardUnknown
	case res.Ending == participant.Committed && v != Rollback:
		rep.State = txn.BranchCommitted
	case res.Ending == participant.Committed:
		rep.Hazard = txn.HazardCommitted
	case res.Ending == participant.RolledBack && v != Commit:
		rep.State = txn.BranchRolledBack
	case res.Ending == participant.RolledBack:
		rep.Hazard = txn.HazardRolledBack
	default:
		return Report{}, fmt.Errorf("the participant answered ending %v", res.Ending)
	}
	return rep, nil
}
