package recovery

import (
	"time"

	"github.com/txmgr/txmgr/timeout"
	"github.com/txmgr/txmgr/timeout/wheel"
)

// timerResolution is a tick of the wheel: what waits is late by less than that, and what
// comes within one is dealt with at one awakening.
const timerResolution = time.Millisecond

// timer is the place of an item on the wheel. It is part of what waits, and costs
// nothing of its own. The zero timer does not wait.
type timer = wheel.Task[item]

// timers has what is to be looked at again at a time. Putting in and taking out
// takes the same few steps however much waits: when a participant is down, each of
// its branches waits, and when it is back a person may not.
type timers struct{ wheel *wheel.Wheel[item] }

func newTimers() timers { return timers{wheel.New[item](0, wheel.DefaultSize)} }

// set makes the timer, which does not wait, wait until a time on recovery's scale:
// never less, and less than an instant more.
func (t *timers) set(w *timer, at time.Duration) {
	end := max(0, at) / timerResolution
	if end*timerResolution < at {
		end++
	}
	t.wheel.Add(w, timeout.Tick(end))
}

// cancel makes the timer wait no more, if it does.
func (t *timers) cancel(w *timer) { t.wheel.Cancel(w) }

// due takes a timer whose time has come; nil when there is none.
func (t *timers) due(now time.Duration) *timer {
	t.wheel.Advance(timeout.Tick(now / timerResolution))
	return t.wheel.Pop()
}

// next is when to ask again what is due; false when nothing waits.
func (t *timers) next() (time.Duration, bool) {
	at, ok := t.wheel.Next()
	return time.Duration(at) * timerResolution, ok
}

// len is how many wait.
func (t *timers) len() int { return t.wheel.Len() }

// timerDue is the time for which a timer waits.
func timerDue(w *timer) time.Duration { return time.Duration(w.End()) * timerResolution }
