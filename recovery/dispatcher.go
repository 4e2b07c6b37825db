package recovery

import (
	"errors"
	"time"

	"github.com/txmgr/txmgr/participant"
)

// branchAttempts is what is kept of a branch from its first attempt until it is finished.
// Guarded by Recovery.mu.
type branchAttempts struct {
	lane       *lane
	timer      timer      // when parked: waits for the next try
	lastErr    string     // clipped, without secrets
	cancel     func()     // when running: ends the call
	attemptLog attemptLog // what was tried
	count      uint32     // failed attempts
	uncertain  uint32     // calls among them that may have had an effect
	fails      uint32     // failed attempts since backoff was last forgotten
	state      attemptState
	stale      bool // the call was ended because the log decided meanwhile
}

type attemptState uint8

const (
	calling    attemptState = iota // with the pool
	backingOff                     // waits for its time
	requeued                       // in its lane again
	reporting                      // done; the log has to be told
)

// completeAttempt notes what came of an attempt, lets the next ones begin, and gives what the
// pool is to learn.
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
		return feedback // whoever takes over asks the log
	}
	text := l.text(a.err)
	if !a.stale {
		r.history.addLocked(&t.attemptLog, a.record(it.action, text, t.stale))
		t.attemptLog.anyFailed = t.attemptLog.anyFailed || t.stale || a.report.Heuristic != 0
	}
	switch {
	case a.stale || t.stale:
		l.br.cancelProbe(probe)
		r.dropBranchLocked(it)
	case a.err != nil:
		if a.participantFault {
			r.recordFailureLocked(l, text, now, probe)
		} else {
			l.br.cancelProbe(probe)
		}
		t.count++
		t.fails++
		if none := (*participant.NoEffectError)(nil); a.called && !errors.As(a.err, &none) {
			t.uncertain++
		}
		t.lastErr = text
		wait := r.retries.fullJitter(int(t.fails))
		if a.longBackoff {
			wait = r.retries.halfJitter(maxBackoffFailures)
		}
		r.backOffLocked(it, t, now+wait)
	default:
		l.recordSuccessLocked()
		t.state = reporting
		r.addReportLocked(it.TX, reportEntry{a.report, it})
	}
	r.dispatchLocked(now)
	return feedback
}

// maxBackoffFailures is a number of failures after which the wait grows no more.
const maxBackoffFailures = 64

// text makes an error fit to be kept. Equal texts are kept once, because when a
// participant is down all its branches have the same.
func (l *lane) text(err error) string {
	if err == nil {
		return ""
	}
	s := redact(err.Error())
	if s == l.lastErr {
		return l.lastErr
	}
	return s
}

// recordFailureLocked counts a failure of the participant; mu is held.
func (r *Recovery) recordFailureLocked(l *lane, text string, now time.Duration, probe bool) {
	l.br.failure(now, probe)
	l.fails++
	l.lastErr = text
	l.noteContactLocked()
	if !l.br.closed() {
		r.wakeByLocked(l.br.nextProbe())
	}
}

// recordSuccessLocked notes that the participant answered; mu is held.
func (l *lane) recordSuccessLocked() {
	l.clearFailuresLocked()
	l.noteContactLocked()
}

// backOffLocked lets a branch wait for its next try; mu is held.
func (r *Recovery) backOffLocked(it item, t *branchAttempts, next time.Duration) {
	t.state = backingOff
	t.lane.backingOff++
	r.setTimerLocked(&t.timer, it, next)
}

// setTimerLocked makes an item wait until a time; mu is held.
func (r *Recovery) setTimerLocked(w *timer, it item, at time.Duration) {
	w.Value = it
	r.timers.set(w, at)
	r.wakeByLocked(at)
}

// endBackoffLocked puts a branch back into its lane, whose time came then; mu is held.
func (r *Recovery) endBackoffLocked(it item, t *branchAttempts, since time.Duration) {
	r.timers.cancel(&t.timer)
	t.state = requeued
	t.lane.backingOff--
	r.queueLocked(t.lane, it, since)
}

// dropBranchLocked forgets a branch that needs nothing more. After the last one of a
// transaction the log is asked once more what is left; mu is held.
func (r *Recovery) dropBranchLocked(it item) {
	if t := r.attempts[it]; t != nil {
		r.history.archiveLocked(it.Key, &t.attemptLog)
		delete(r.attempts, it)
	}
	t := r.transactions[it.TX]
	t.outstanding--
	r.transactions[it.TX] = t
	if t.outstanding == 0 {
		r.enqueueLocked(it.TX, 0)
	}
}
