package adaptive

import "time"

// counters counts what happens in a pool. All but the maxima only add, and may wrap: a
// window is the difference of two readings.
type counters struct {
	last time.Duration // end of the integrals

	busy, waiting, bound time.Duration // integrals; see Window
	busyMax, waitingMax  int           // since the last window

	arrived, completed, boundCompleted uint64
	failed, panicked, timedOut         uint64
}

// times has the durations of the tasks of a window. They are recorded under the mutex,
// which is held at the end of every task anyway, and at the same moment at which the
// task is counted.
type times struct{ service, sojourn Histogram }

// waitingLocked is how many tasks wait; mu is held.
func (p *Pool) waitingLocked() int {
	return p.queue.n + p.blocked.n + p.source.ready + p.source.limited
}

// busyLocked is how many workers have a task; mu is held.
func (p *Pool) busyLocked() int { return p.running - p.asking }

// boundLocked reports whether a larger limit would have more tasks running; mu is
// held.
func (p *Pool) boundLocked() bool {
	return p.source.limited > 0 || p.running >= p.limit && p.waitingLocked() > 0
}

// advanceLocked extends the integrals to now. It precedes every change of the integrated
// numbers. Clock readings of different goroutines may arrive out
// of order: a late one changes nothing. mu is held.
func (p *Pool) advanceLocked(now time.Duration) {
	m := &p.counters
	busy, waiting := p.busyLocked(), p.waitingLocked()
	m.busyMax = max(m.busyMax, busy)
	m.waitingMax = max(m.waitingMax, waiting)
	d := now - m.last
	if d <= 0 {
		return
	}
	m.last = now
	m.busy += time.Duration(busy) * d
	m.waiting += time.Duration(waiting) * d
	if p.boundLocked() {
		m.bound += d
	}
}

// countLocked counts the end of a task; mu is held.
func (p *Pool) countLocked(r result) {
	m := &p.counters
	switch r {
	case timedOut:
		m.timedOut++
		return
	case panicked:
		m.panicked++
	case failed:
		m.failed++
	}
	m.completed++
	if p.boundLocked() {
		m.boundCompleted++
	}
}
