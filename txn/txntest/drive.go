package txntest

import (
	"context"
	"time"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// As in recovery with its defaults, but for the time after a failed call, which is always the
// same.
const (
	commitGrace   = time.Second      // for an application to complete its own branches
	rollbackGrace = Interval         // for one that rolls back, so that a test knows which of the two is first
	callTimeout   = 10 * time.Second // of a call to a participant
	retryAfter    = Interval
)

// fakeParticipant is a participant that the manager can drive.
type fakeParticipant interface {
	// call does what a participant does in one phase. An error means that the call is repeated.
	call(ctx context.Context, c Call) (callResult, error)
	// graceful reports whether applications may complete their branches themselves.
	graceful() bool
}

// callResult is a vote, or how a branch ended.
type callResult struct {
	vote   txn.Vote
	reason string // of a no
	state  txn.BranchState
}

// branchKey names a branch.
type branchKey struct {
	id     txn.ID
	branch txn.BranchID
}

// add adds a fake under a name.
func (m *Manager) add(name string, f fakeParticipant, coordinatorPrepares bool) {
	m.tb.Helper()
	if err := txn.CheckParticipantName(name); err != nil {
		m.tb.Fatalf("txntest: %v", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.registerLocked(name, coordinatorPrepares)
	if p, ok := m.machine.Participant(name); ok && p.CoordinatorPrepares != coordinatorPrepares || m.participants[name] != nil {
		m.tb.Fatalf("txntest: participant %q is there already", name)
	}
	m.participants[name] = f
}

// driveLocked starts a driver for every branch of a transaction that is left to the manager, if
// it has none.
func (m *Manager) driveLocked(id txn.ID) {
	t, ok := m.machine.Get(id)
	if !ok || m.closed {
		return
	}
	for i, b := range t.Branches {
		k, f := branchKey{id, txn.BranchID(i + 1)}, m.participants[b.Participant]
		if _, driven := m.driving[k]; driven || f == nil || b.State.Finished() {
			continue
		}
		m.driving[k] = time.Now()
		m.running.Go(func() { m.drive(k, f) })
	}
}

// drive drives one branch to what its transaction requires, and returns when nothing more is
// required of it.
func (m *Manager) drive(k branchKey, f fakeParticipant) {
	for {
		c, wait, changed, wanted := m.nextCall(k, f.graceful())
		switch {
		case !wanted:
			return
		case wait > 0:
			m.pause(wait, changed)
			continue
		}
		found, err := f.call(c.ctx, c.Call)
		c.cancel()
		if err != nil || !m.report(c.Call, found) {
			m.pause(retryAfter, changed)
		}
	}
}

// pause returns early when the transaction changes, or the test has ended.
func (m *Manager) pause(d time.Duration, changed <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
	case <-m.ctx.Done():
	}
}

// pendingCall is a call that is due.
type pendingCall struct {
	Call
	ctx    context.Context
	cancel context.CancelFunc
}

// nextCall returns the call that a branch needs now, or how long it can wait. When it needs
// none, the branch has no driver any more.
func (m *Manager) nextCall(k branchKey, graceful bool) (e pendingCall, wait time.Duration, changed <-chan struct{}, wanted bool) {
	_, changed, err := m.watch(k.id)
	m.mu.Lock()
	defer m.mu.Unlock()
	t, _ := m.machine.Get(k.id)
	phase, wait := "", time.Duration(0)
	if err == nil && !m.closed {
		phase, wait = m.phaseLocked(&t, k, graceful)
	}
	if phase == "" {
		delete(m.driving, k)
		return pendingCall{}, 0, nil, false
	}
	limit := callTimeout
	if phase == "prepare" {
		limit = min(limit, m.until(t.Expiry))
	}
	if wait == 0 {
		e.ctx, e.cancel = context.WithTimeout(m.ctx, limit)
		e.Call = Call{ID: k.id, Branch: k.branch, Phase: phase, Payload: t.Branches[k.branch-1].Payload}
	}
	return e, wait, changed, true
}

// phaseLocked returns the phase that a branch needs, and in how long; empty when it needs none.
func (m *Manager) phaseLocked(t *machine.Transaction, k branchKey, graceful bool) (phase string, wait time.Duration) {
	b := &t.Branches[k.branch-1]
	switch {
	case b.State.Finished():
	case t.Follows(k.branch):
	case t.EndAsked():
		return "settle", 0
	case t.Delegated():
		return "settle", m.until(t.Expiry)
	case t.State == txn.Preparing && b.Vote == 0:
		return "prepare", 0
	case t.State == txn.Committing && t.ClientCompletes && graceful:
		return "commit", max(commitGrace-time.Since(m.driving[k]), 0)
	case t.State == txn.RollingBack && t.Cause != txn.CauseTimeout && t.Cause != txn.CauseSessionExpired && graceful:
		return "rollback", max(rollbackGrace-time.Since(m.driving[k]), 0)
	case t.State == txn.Committing:
		return "commit", 0
	case t.State == txn.RollingBack:
		return "rollback", 0
	}
	return "", 0
}

// report records in the machine what a call has found out, and reports whether the machine
// accepted it.
func (m *Manager) report(c Call, f callResult) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	var command machine.Command
	switch {
	case c.Phase == "prepare" && f.vote == txn.VoteEndedByApplication:
		command = machine.EndedByApplication{ID: c.ID, Branch: c.Branch, Reason: f.reason}
	case c.Phase == "prepare":
		command = machine.Vote{ID: c.ID, Votes: []txn.BranchVote{{Branch: c.Branch, Vote: f.vote}}, Reason: f.reason}
	case c.Phase == "commit" && f.state != txn.BranchCommitted: // it was never prepared
		command = machine.ReportHeuristic{ID: c.ID, Branch: c.Branch, Heuristic: txn.HeuristicRollback, Detail: "the participant says so"}
	default:
		command = machine.ReportCompletion{ID: c.ID, Reports: []txn.CompletionReport{{Branch: c.Branch, State: f.state}}}
	}
	code := m.applyLocked(command)[0].Code
	return code == machine.OK || code == machine.Decided
}
