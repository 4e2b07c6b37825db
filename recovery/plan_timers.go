package recovery

import (
	"time"

	"github.com/txmgr/txmgr/timeout"
	"github.com/txmgr/txmgr/timeout/wheel"
)

// timerResolution is a tick of the wheel: a timer is late by less than that, and
// timers within one tick are handled in one wakeup.
const timerResolution = time.Millisecond

// timer is the place of an item on the wheel. It is embedded in the waiting object, and
// allocates nothing of its own. The zero timer does not wait.
type timer = wheel.Task[item]

// timers schedules items for a time. Adding and removing take the same few steps however
// many wait: when a participant is down, each of its branches waits, and when it is back
// the operator may not.
type timers struct{ wheel *wheel.Wheel[item] }

func newTimers() timers { return timers{wheel.New[item](0, wheel.DefaultSize)} }

// set makes the timer, which does not wait, wait until a time on recovery's scale:
// never less, and less than one timerResolution more.
func (t *timers) set(w *timer, at time.Duration) {
	end := max(0, at) / timerResolution
	if end*timerResolution < at {
		end++
	}
	t.wheel.Add(w, timeout.Tick(end))
}

// cancel ends the timer's wait, if it waits.
func (t *timers) cancel(w *timer) { t.wheel.Cancel(w) }

// due removes and returns a timer that is due; nil when there is none.
func (t *timers) due(now time.Duration) *timer {
	t.wheel.Advance(timeout.Tick(now / timerResolution))
	return t.wheel.Pop()
}

// next is when to call due again; false when no timer waits.
func (t *timers) next() (time.Duration, bool) {
	at, ok := t.wheel.Next()
	return time.Duration(at) * timerResolution, ok
}

// len is how many timers wait.
func (t *timers) len() int { return t.wheel.Len() }

// timerDue is the time for which a timer waits.
func timerDue(w *timer) time.Duration { return time.Duration(w.End()) * timerResolution }
