package timeoutadapters

import (
	"github.com/txmgr/txmgr/timeout"
	"github.com/txmgr/txmgr/timeout/wheel"
)

// Wheel is a timing wheel of numbers.
type Wheel struct{ wheel *wheel.Wheel[uint64] }

// NewWheel returns an empty wheel of the usual size at the tick now.
func NewWheel(now timeout.Tick) Wheel { return Wheel{wheel.New[uint64](now, 0)} }

// Add implements [timeout.Structure].
func (w Wheel) Add(id uint64, end timeout.Tick) *wheel.Task[uint64] {
	t := &wheel.Task[uint64]{Value: id}
	w.wheel.Add(t, end)
	return t
}

// Cancel implements [timeout.Structure].
func (w Wheel) Cancel(id uint64, t *wheel.Task[uint64]) bool {
	return t != nil && t.Value == id && w.wheel.Cancel(t)
}

// Advance implements [timeout.Structure].
func (w Wheel) Advance(to timeout.Tick) { w.wheel.Advance(to) }

// Expire implements [timeout.Structure].
func (w Wheel) Expire(buf []uint64) int {
	for i := range buf {
		t := w.wheel.Pop()
		if t == nil {
			return i
		}
		buf[i] = t.Value
	}
	return len(buf)
}

// Next implements [timeout.Structure].
func (w Wheel) Next() (timeout.Tick, bool) { return w.wheel.Next() }

// Len implements [timeout.Structure].
func (w Wheel) Len() int { return w.wheel.Len() }

// Now implements [timeout.Structure].
func (w Wheel) Now() timeout.Tick { return w.wheel.Now() }
