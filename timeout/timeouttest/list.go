package timeouttest

import (
	"slices"

	"github.com/txmgr/txmgr/timeout"
)

// List is the contract in its plainest form, a list sorted by the ends: slow, and easy to verify.
// The zero List is empty, at tick 0.
type List struct {
	now     timeout.Tick
	entries []entry // sorted by end; entries of one end in the order in which they were added
	serial  uint64  // of the last one that was added
}

type entry struct {
	id, serial uint64
	end        timeout.Tick
}

// NewList returns an empty list at the tick now.
func NewList(now timeout.Tick) *List { return &List{now: now} }

// Add implements [timeout.Structure]. The handle is a number that is given out once.
func (l *List) Add(id uint64, end timeout.Tick) uint64 {
	l.serial++
	e := entry{id: id, serial: l.serial, end: max(end, l.now)}
	i, _ := slices.BinarySearchFunc(l.entries, e.end+1, func(e entry, end timeout.Tick) int {
		if e.end < end || end == 0 { // the end behind the last one
			return -1
		}
		return 1
	})
	l.entries = slices.Insert(l.entries, i, e)
	return e.serial
}

// Cancel implements [timeout.Structure].
func (l *List) Cancel(id, serial uint64) bool {
	i := slices.IndexFunc(l.entries, func(e entry) bool { return e.id == id && e.serial == serial })
	if i < 0 {
		return false
	}
	l.entries = slices.Delete(l.entries, i, i+1)
	return true
}

// Advance implements [timeout.Structure].
func (l *List) Advance(to timeout.Tick) { l.now = max(l.now, to) }

// Expire implements [timeout.Structure].
func (l *List) Expire(buf []uint64) int {
	n := 0
	for n < len(buf) && n < len(l.entries) && l.entries[n].end <= l.now {
		buf[n] = l.entries[n].id
		n++
	}
	l.entries = slices.Delete(l.entries, 0, n)
	return n
}

// Next implements [timeout.Structure]. It is exact.
func (l *List) Next() (timeout.Tick, bool) {
	if len(l.entries) == 0 {
		return 0, false
	}
	return l.entries[0].end, true
}

// Len implements [timeout.Structure].
func (l *List) Len() int { return len(l.entries) }

// Now implements [timeout.Structure].
func (l *List) Now() timeout.Tick { return l.now }
