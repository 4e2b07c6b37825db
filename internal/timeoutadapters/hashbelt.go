package timeoutadapters

import (
	"slices"

	"github.com/txmgr/txmgr/timeout"
	"github.com/txmgr/txmgr/timeout/hashbelt"
)

// Containers is how many a belt usually has here: ten minutes of ticks of 100 ms, and more.
const Containers = 8192

// Belt is a ring of containers of numbers. A container holds the entries that end at one tick, so
// an end may lie as many ticks ahead as there are containers; a later one counts as that.
type Belt struct {
	ring         *hashbelt.Ring[uint64, uint64] // the serial number of an entry, by id
	due          []dueEntry                     // by end
	taken        int                            // of due, from the front
	cancelledDue int                            // of the others, that were cancelled
	serial       uint64                         // of the last entry
}

// dueEntry is an entry that has fallen off; id 0 was cancelled then.
type dueEntry struct {
	id, serial uint64
	end        timeout.Tick
}

// NewBelt returns an empty belt of so many containers at the tick now; fresh makes them.
func NewBelt(containers int, now timeout.Tick, fresh func() hashbelt.Container[uint64, uint64]) (*Belt, error) {
	ring, err := hashbelt.NewRing(containers, now, fresh)
	return &Belt{ring: ring}, err
}

// Add implements [timeout.Structure].
func (b *Belt) Add(id uint64, end timeout.Tick) uint64 {
	b.serial++
	if now := b.ring.Now(); end <= now {
		b.due = append(b.due, dueEntry{id, b.serial, now})
		return b.serial
	}
	if err := b.ring.Add(id, b.serial, min(end, b.ring.Front())); err != nil {
		return 0 // pending already, or too many
	}
	return b.serial
}

// Cancel implements [timeout.Structure]. It has to search the entries that are due already.
func (b *Belt) Cancel(id, serial uint64) bool {
	if s, _, ok := b.ring.Get(id); ok {
		if s == serial {
			b.ring.Remove(id)
		}
		return s == serial
	}
	i := slices.IndexFunc(b.due[b.taken:], func(f dueEntry) bool { return f.id == id && f.serial == serial })
	if i < 0 {
		return false
	}
	b.due[b.taken+i].id = 0
	b.cancelledDue++
	return true
}

// Advance implements [timeout.Structure].
func (b *Belt) Advance(to timeout.Tick) {
	for held := b.ring.Advance(to); held != nil; held = b.ring.Advance(to) {
		for id, serial := range held.All() {
			b.due = append(b.due, dueEntry{id, serial, b.ring.Now()})
		}
	}
}

// Expire implements [timeout.Structure].
func (b *Belt) Expire(buf []uint64) int {
	n := 0
	for n < len(buf) && b.taken < len(b.due) {
		if id := b.due[b.taken].id; id != 0 {
			buf[n] = id
			n++
		} else {
			b.cancelledDue--
		}
		b.taken++
	}
	if b.taken == len(b.due) {
		b.due, b.taken = b.due[:0], 0
	}
	return n
}

// Next implements [timeout.Structure].
func (b *Belt) Next() (timeout.Tick, bool) {
	for _, f := range b.due[b.taken:] {
		if f.id != 0 {
			return f.end, true
		}
	}
	return b.ring.Next()
}

// Len implements [timeout.Structure].
func (b *Belt) Len() int { return len(b.due) - b.taken - b.cancelledDue + b.ring.Len() }

// Now implements [timeout.Structure].
func (b *Belt) Now() timeout.Tick { return b.ring.Now() }
