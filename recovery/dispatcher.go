package recovery

import (
	"errors"
	"time"

	"github.com/txmgr/txmgr/participant"
)

// try is what is kept of a branch from its first attempt until it is finished.
// Guarded by Recovery.mu.
type try struct {
	lane    *lane
	timer   timer  // when parked: waits for the next try
	lastErr string // clipped, without secrets
	cancel  func() // when running: ends the call
	trail   trail  // what was tried
	count   uint32 // failed attempts
	lost    uint32 // calls among them that may have had an effect
	fails   uint32 // failed attempts since backoff was last forgotten
	state   tryState
	stale   bool // the call was ended because the log decided meanwhile
}

type tryState uint8

const (
	trying    tryState = iota // with the pool
	parked                    // waits for its time
	waiting                   // in its lane again
	reporting                 // done; the log has to be told
)

// finish notes what came of an attempt, lets the next ones begin, and gives what the
// pool is to learn.
func (r *Recovery) finish(l *lane, it item, probe bool, a outcome) (lesson error) {
	if a.called && r.cfg.Called != nil {
		r.cfg.Called(l.name, a.took)
	}
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endLocked(l)
	t := r.tries[it]
	t.cancel = nil
	lesson = a.lesson(t.stale)
	if a.stopped {
		return lesson // whoever takes over asks the log
	}
	text := l.text(a.err)
	if !a.stale {
		r.past.noteLocked(&t.trail, a.record(it.verb, text, t.stale))
		t.trail.bad = t.trail.bad || t.stale || a.report.Hazard != 0
	}
	switch {
	case a.stale || t.stale:
		l.br.release(probe)
		r.settleLocked(it)
	case a.err != nil:
		if a.blame {
			r.blameLocked(l, text, now, probe)
		} else {
			l.br.release(probe)
		}
		t.count++
		t.fails++
		if none := (*participant.NoEffectError)(nil); a.called && !errors.As(a.err, &none) {
			t.lost++
		}
		t.lastErr = text
		wait := r.retries.full(int(t.fails))
		if a.slow {
			wait = r.retries.half(hopeless)
		}
		r.parkLocked(it, t, now+wait)
	default:
		l.praiseLocked()
		t.state = reporting
		r.addReportLocked(it.TX, entry{a.report, it})
	}
	r.dispatchLocked(now)
	return lesson
}

// hopeless is a number of failures after which the wait grows no more.
const hopeless = 64

// text makes an error fit to be kept. Equal texts are kept once, because when a
// participant is down all its branches have the same.
func (l *lane) text(err error) string {
	if err == nil {
		return ""
	}
	s := plain(err.Error())
	if s == l.lastErr {
		return l.lastErr
	}
	return s
}

// blameLocked counts a failure of the participant; mu is held.
func (r *Recovery) blameLocked(l *lane, text string, now time.Duration, probe bool) {
	l.br.failure(now, probe)
	l.fails++
	l.lastErr = text
	l.hearLocked()
	if !l.br.closed() {
		r.wakeByLocked(l.br.nextProbe())
	}
}

// praiseLocked notes that the participant answered; mu is held.
func (l *lane) praiseLocked() {
	l.clearLocked()
	l.hearLocked()
}

// parkLocked lets a branch wait for its next try; mu is held.
func (r *Recovery) parkLocked(it item, t *try, next time.Duration) {
	t.state = parked
	t.lane.parked++
	r.waitLocked(&t.timer, it, next)
}

// waitLocked makes an item wait until a time; mu is held.
func (r *Recovery) waitLocked(w *timer, it item, at time.Duration) {
	w.Value = it
	r.timers.set(w, at)
	r.wakeByLocked(at)
}

// unparkLocked puts a branch back into its lane, whose time came then; mu is held.
func (r *Recovery) unparkLocked(it item, t *try, since time.Duration) {
	r.timers.cancel(&t.timer)
	t.state = waiting
	t.lane.parked--
	r.queueLocked(t.lane, it, since)
}

// settleLocked forgets a branch that needs nothing more. After the last one of a
// transaction the log is asked once more what is left; mu is held.
func (r *Recovery) settleLocked(it item) {
	if t := r.tries[it]; t != nil {
		r.past.retireLocked(it.Key, &t.trail)
		delete(r.tries, it)
	}
	t := r.tasks[it.TX]
	t.out--
	r.tasks[it.TX] = t
	if t.out == 0 {
		r.enqueueLocked(it.TX, 0)
	}
}
