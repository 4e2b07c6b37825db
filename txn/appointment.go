package txn

import "context"

// appointment is the part of an announcer about a branch that decides: the first one, as long as it is
// the only one and no other application knows the id. It is a part of the begin: a coordinator that has
// begun the transaction without it rolls that back at the deadline.
type appointment struct {
	beginLeft bool               // with or without it: nothing is appointed any more
	appointed bool               // the coordinator has been told, or will be
	revoked   bool               // the coordinator has to be told: with the next enlistment, or by itself before anyone goes on
	decided   bool               // the commit has begun: nothing is revoked any more
	ended     []CompletionReport // how the branch ended, to be told after the begin
}

// revokeLocked takes the appointment back, unless the branch is being committed already.
func (a *announcer) revokeLocked() {
	if !a.appointed || a.decided {
		return
	}
	a.appointed = false
	a.branches[0].enlistment.Decides = false
	a.revoked = a.branches[0].sent
}

// decide reports whether the only branch may be committed in one phase, without waiting for the
// coordinator, because it is appointed. Nothing can revoke that any more.
func (a *announcer) decide() bool {
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.appointed || a.err != nil {
		return false
	}
	a.decided = true
	a.learnLocked()
	a.hurryLocked()
	return true
}

// decides reports whether the coordinator takes the end of the first branch for the decision.
func (a *announcer) decides() bool {
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.appointed && a.err == nil
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
func (a *announcer) report(end CompletionReport) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = append(a.ended, end)
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
