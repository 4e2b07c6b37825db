package recovery

import (
	"context"
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

// dispatchLocked hands work to the pool while both have room; mu is held.
func (r *Recovery) dispatchLocked(now time.Duration) {
	if r.state != running {
		return
	}
	r.sendReportsLocked(now)
	for r.outbox.open(now) {
		l, class, ok := r.pickLocked(now)
		if !ok {
			return
		}
		if !r.submitLocked(l, class) {
			if r.inPool == 0 && !r.refused {
				r.wake() // others fill the pool: only the clock tells when to ask again
			}
			r.refused = true
			return
		}
		r.refused = false
		r.turn++
	}
}

// submitLocked hands the first of a class to the pool. The task cannot get ahead
// of what is noted here, because the first thing that it needs is mu.
func (r *Recovery) submitLocked(l *lane, class int) bool {
	probe := !l.br.closed()
	var task func()
	var it item
	if class == classJobs {
		j := l.jobs[0]
		task = func() { r.runJob(l, j, probe) }
	} else {
		it = l.queues[class].peek()
		task = func() { r.drive(l, it, probe) }
	}
	r.wg.Add(1)
	if !r.pool.TrySubmit(priorities[class], task) {
		r.wg.Done()
		return false
	}
	r.inPool++
	l.running++
	l.br.begin()
	if class == classJobs {
		l.jobs = l.jobs[1:]
	} else {
		l.queues[class].pop()
		t := r.tries[it]
		if t == nil {
			t = &try{lane: l}
			r.tries[it] = t
		}
		t.state = trying
	}
	r.restLocked(l)
	return true
}

// drive makes one attempt at one branch, on a worker.
func (r *Recovery) drive(l *lane, it item, probe bool) {
	defer r.wg.Done()
	ctx, cancel := context.WithTimeout(r.ctx, r.cfg.CallTimeout)
	defer cancel()

	r.mu.Lock()
	t := r.tries[it]
	t.cancel = cancel
	lost := int(t.lost)
	r.mu.Unlock()

	a := r.attempt(ctx, it, lost)
	a.stopped = r.ctx.Err() != nil
	r.finish(l, it, probe, a)
}

// finish notes what came of an attempt and lets the next ones begin.
func (r *Recovery) finish(l *lane, it item, probe bool, a outcome) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inPool--
	l.running--
	t := r.tries[it]
	t.cancel = nil
	if a.stopped {
		return // whoever takes over asks the log
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

// unparkLocked puts a branch back into its lane; mu is held.
func (r *Recovery) unparkLocked(it item, t *try) {
	r.timers.cancel(&t.timer)
	t.state = waiting
	t.lane.parked--
	r.queueLocked(t.lane, it)
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
