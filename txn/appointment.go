package txn

import (
	"cmp"
	"context"
)

// appointment is the part of an announcer about the branch that decides: the first one, as long as it is
// the only one, or with [Options.LastDecides] the last one; and none once another application knows the id. The first
// one is appointed in the begin, or not at all: it commits without waiting, and a coordinator that has
// begun the transaction without it rolls that back at the deadline. The last one waits for the others.
type appointment struct {
	beginLeft     bool               // with or without an appointment
	decider       BranchID           // the branch that is to decide
	told          BranchID           // the one that the coordinator has been told last: with the next enlistment, or by itself before anyone goes on, it is told of another one, or of none
	enlistedAgain bool               // a branch that was sent: the coordinator would take it for a repeat, and appoints none beside it
	decided       bool               // the commit has begun: nothing is revoked any more
	ended         []CompletionReport // how the branch ended, to be told after the begin
}

// appointLocked decides, when the resource of a branch has been opened, which one is to decide. A branch is appointed by its
// first enlistment, or never: the coordinator would not take a repeat for an appointment.
func (a *announcer) appointLocked(id BranchID, onePhase bool) {
	mayDecide := onePhase && a.n.Appoints && !a.shared && !a.enlistedAgain
	switch {
	case len(a.branches) > 1 && !a.n.Options.LastDecides:
		a.noDeciderLocked()
	case len(a.branches) > 1 && int(id) < len(a.branches): // a later one is asked
	case mayDecide && (len(a.branches) > 1 || !a.beginLeft):
		a.decider = id
	default:
		a.revokeLocked()
	}
}

// appointedLocked returns an enlistment as it is sent now, with what it says about the branch that decides.
func (a *announcer) appointedLocked(id BranchID, e Enlistment) Enlistment {
	e.Decides, e.Revokes = id == a.decider, a.begun && a.told != 0 // a begin says all at once
	switch {
	case e.Decides:
		a.told = id
	case e.Revokes:
		a.told = 0
	}
	return e
}

// toRevokeLocked reports whether the coordinator takes a branch for the one that decides, and it is not.
func (a *announcer) toRevokeLocked() bool { return a.told != 0 && a.told != a.decider }

// revokeLocked takes the appointment back, unless the branch is being committed already.
func (a *announcer) revokeLocked() {
	if !a.decided {
		a.decider = 0
	}
}

// decide reports whether the only branch may be committed in one phase, without waiting for the
// coordinator, because it is appointed. Nothing can revoke that any more.
func (a *announcer) decide() bool {
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.decider == 0 || len(a.branches) != 1 || a.err != nil {
		return false
	}
	a.decided = true
	a.learnLocked()
	a.hurryLocked()
	return true
}

// awaitLast returns the last of several branches if it is to decide, when the coordinator has begun the transaction
// and knows all that; zero when [announcer.await] has to be called instead, also when other branches are known than the
// given number, whose votes will be known.
func (a *announcer) awaitLast(ctx context.Context, branches int) (BranchID, error) {
	if a == nil {
		return 0, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.decider == 0 || len(a.branches) < 2 || len(a.branches) != branches {
		return 0, nil
	}
	a.learnLocked()
	err := cmp.Or(a.sendAllLocked(ctx), a.unsentLocked())
	return a.decider, err
}

// decideLast reports whether the last branch, which was awaited, may be committed now that all others are prepared. Nothing
// can revoke that any more; otherwise the appointment was revoked meanwhile.
func (a *announcer) decideLast() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.decided = a.decider != 0 && a.told == a.decider && a.err == nil
	return a.decided
}

// appointed is the branch whose end the coordinator takes for the decision; zero for none.
func (a *announcer) appointed() BranchID {
	if a == nil {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil || a.toRevokeLocked() {
		return 0
	}
	return a.decider
}

// close ends what is on its way.
func (a *announcer) close() {
	if a != nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.end()
	}
}

// report tells the coordinator how the appointed branch ended, without waiting: after the begin, if that
// is on its way. What is not sent by then is given up.
func (a *announcer) report(ends ...CompletionReport) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = append(a.ended, ends...)
	a.sendLocked(false)
	if a.sending == nil {
		a.reportLocked()
		return
	}
	a.hurryLocked()
	limit, stop := context.WithTimeout(context.Background(), phaseTwoTimeout)
	context.AfterFunc(limit, a.end)
	a.end = stop
}

// reportLocked sends the end of the appointed branch, if it is known. It releases mu meanwhile.
func (a *announcer) reportLocked() {
	if len(a.ended) == 0 {
		return
	}
	ended := a.ended
	a.ended = nil
	if a.begun && a.err == nil {
		a.mu.Unlock()
		_ = a.m.ReportCompletion(AllowDelay(a.ctx), a.n.Options.ID, ended...) // otherwise the coordinator asks at the deadline
		a.mu.Lock()
	}
	a.end()
}
