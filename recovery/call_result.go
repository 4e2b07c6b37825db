package recovery

import (
	"errors"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/recovery/history"
)

// branchAttempts is the state of a branch from its first attempt until it is finished.
// Guarded by Recovery.mu.
type branchAttempts struct {
	lane       *lane
	timer      timer            // when backing off: waits for the next attempt
	lastErr    string           // truncated, without secrets
	cancel     func()           // when calling: ends the call
	attemptLog history.Attempts // what was tried
	count      uint32           // failed attempts
	uncertain  uint32           // calls among them that may have had an effect
	fails      uint32           // failed attempts since the backoff was last reset
	state      attemptState
	stale      bool // the call was cancelled because the log decided meanwhile
}

type attemptState uint8

const (
	calling    attemptState = iota // a worker has it
	backingOff                     // waits for its next attempt
	requeued                       // in its lane again
	reporting                      // done; the log has to be told the result
)

// completeAttempt records the result of an attempt, dispatches the next calls, and returns
// the feedback for the pool.
func (r *Recovery) completeAttempt(l *lane, it item, probe bool, a attemptResult) (feedback error) {
	if a.called && r.cfg.OnCall != nil {
		r.cfg.OnCall(l.name, a.took)
	}
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endCallLocked(l)
	t := r.attempts[it]
	t.cancel = nil
	feedback = a.feedback(t.stale)
	if a.stopped {
		return feedback // the next leader reads the log
	}
	text := l.health.text(a.err)
	if !a.stale {
		r.history.Add(&t.attemptLog, a.record(it.action, text, t.stale))
		if t.stale || a.report.Heuristic != 0 {
			t.attemptLog.Retain()
		}
	}
	switch {
	case a.stale || t.stale:
		l.health.br.CancelProbe(probe)
		r.dropBranchLocked(it)
	case a.err != nil:
		if a.participantFault {
			r.recordFailureLocked(l, text, now, probe)
		} else {
			l.health.br.CancelProbe(probe)
		}
		t.count++
		t.fails++
		if none := (*participant.NoEffectError)(nil); a.called && !errors.As(a.err, &none) {
			t.uncertain++
		}
		t.lastErr = text
		wait := r.backoffs.branches.FullJitter(int(t.fails))
		if a.longBackoff {
			wait = r.backoffs.branches.HalfJitter(maxBackoffFailures)
		}
		r.backOffLocked(it, t, now+wait)
	default:
		l.health.recordSuccessLocked()
		t.state = reporting
		r.addReportLocked(it.TX, reportEntry{a.report, it})
	}
	r.dispatchLocked(now)
	return feedback
}

// maxBackoffFailures is a number of failures at which the wait has reached its maximum.
const maxBackoffFailures = 64

// recordFailureLocked counts a failure of the participant; mu is held.
func (r *Recovery) recordFailureLocked(l *lane, text string, now time.Duration, probe bool) {
	l.health.recordFailureLocked(text, now, probe)
	if !l.health.br.Closed() {
		r.wakeups.wakeByLocked(l.health.br.NextProbe())
	}
}

// backOffLocked makes a branch wait for its next attempt; mu is held.
func (r *Recovery) backOffLocked(it item, t *branchAttempts, next time.Duration) {
	t.state = backingOff
	t.lane.backingOff++
	r.setTimerLocked(&t.timer, it, next)
}

// setTimerLocked makes an item wait until a time; mu is held.
func (r *Recovery) setTimerLocked(w *timer, it item, at time.Duration) {
	w.Value = it
	r.wakeups.timers.set(w, at)
	r.wakeups.wakeByLocked(at)
}

// endBackoffLocked queues a branch in its lane again, ready since then; mu is held.
func (r *Recovery) endBackoffLocked(it item, t *branchAttempts, since time.Duration) {
	r.wakeups.timers.cancel(&t.timer)
	t.state = requeued
	t.lane.backingOff--
	r.queueLocked(t.lane, it, since)
}

// dropBranchLocked forgets a branch that needs nothing more. After the last one of a
// transaction the log is read once more for what is left; mu is held.
func (r *Recovery) dropBranchLocked(it item) {
	if t := r.attempts[it]; t != nil {
		r.history.Finish(it.Key, &t.attemptLog)
		delete(r.attempts, it)
	}
	t := r.pending.transactions[it.TX]
	t.outstanding--
	r.pending.transactions[it.TX] = t
	if t.outstanding == 0 {
		r.enqueueLocked(it.TX, 0)
	}
}
