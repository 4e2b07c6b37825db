package recovery

import "time"

// wakeups is when the loop works next. Guarded by Recovery.mu, except for wake.
type wakeups struct {
	ch         chan struct{} // wakes the loop
	timers     timers        // of branches and reports in backoff, and of deadlines
	sleepUntil time.Duration // when the loop wakes up; zero while it works
	iterations uint64        // of the loop
}

// wake wakes the loop; it never blocks.
func (w *wakeups) wake() {
	select {
	case w.ch <- struct{}{}:
	default:
	}
}

// wakeByLocked makes the loop run again at a time, and does not wake it if it will
// run by then anyway; mu is held.
func (w *wakeups) wakeByLocked(at time.Duration) {
	if at < w.sleepUntil {
		w.wake()
	}
}
