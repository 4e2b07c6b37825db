package timeouttest

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/txmgr/txmgr/timeout"
)

// driven is a structure in a history, with the state that its user has.
type driven struct {
	name string
	s    timeout.Structure[any]
	held map[uint64]any // the handles of entries not yet taken, by id
	gone map[uint64]any // the latest handles of entries that are gone
}

func newDriven(name string, s timeout.Structure[any]) *driven {
	return &driven{name: name, s: s, held: map[uint64]any{}, gone: map[uint64]any{}}
}

func (d *driven) add(id uint64, end timeout.Tick) { d.held[id] = d.s.Add(id, end) }

// cancel cancels an entry that is pending, or tries to cancel one that is not.
func (d *driven) cancel(id uint64) bool {
	h, ok := d.held[id]
	if !ok {
		h = d.gone[id]
	}
	done := d.s.Cancel(id, h)
	if done {
		d.gone[id] = h
		delete(d.held, id)
	}
	return done
}

func (d *driven) took(ids []uint64) {
	for _, id := range ids {
		d.gone[id] = d.held[id]
		delete(d.held, id)
	}
}

// history is a random history, the same for the same seed, of several structures. The first of them
// is the reference.
type history struct {
	rnd      *rand.Rand
	all      []*driven
	ends     map[uint64]timeout.Tick // of pending entries
	ids      []uint64                // of pending entries, and of those that are gone
	last     uint64
	now      timeout.Tick
	endAfter func(now, distance timeout.Tick) timeout.Tick
	reuse    bool // ids come again
	counts   map[string]int
}

// step is one call, at all of them.
func (h *history) step() error {
	switch h.rnd.IntN(10) {
	case 0, 1, 2, 3:
		return h.add()
	case 4, 5, 6:
		return h.cancel()
	case 7:
		return h.expire(1 + h.rnd.IntN(5))
	default:
		return h.advance()
	}
}

// distance is mostly near, at times very far.
func (h *history) distance() timeout.Tick {
	switch h.rnd.IntN(8) {
	case 0:
		return 0
	case 1:
		return timeout.Tick(h.rnd.Uint64N(1 << (1 + h.rnd.UintN(62))))
	default:
		return timeout.Tick(h.rnd.Uint64N(300))
	}
}

func (h *history) add() error {
	var id uint64
	if h.reuse && len(h.ids) > 0 && h.rnd.IntN(3) == 0 {
		id = h.ids[h.rnd.IntN(len(h.ids))]
	}
	if _, pending := h.ends[id]; id == 0 || pending {
		h.last++
		id = h.last
		h.ids = append(h.ids, id)
	}
	end := h.endAfter(h.now, h.distance())
	if h.rnd.IntN(20) == 0 {
		end = h.now - min(h.now, timeout.Tick(h.rnd.Uint64N(50))) // has passed
	}
	h.ends[id] = max(end, h.now)
	h.counts["added"]++
	for _, d := range h.all {
		d.add(id, end)
	}
	return nil
}

func (h *history) cancel() error {
	if len(h.ids) == 0 {
		return nil
	}
	id := h.ids[h.rnd.IntN(len(h.ids))]
	_, want := h.ends[id]
	for _, d := range h.all {
		if got := d.cancel(id); got != want {
			return fmt.Errorf("%s: Cancel(%d) = %v, want %v", d.name, id, got, want)
		}
	}
	if want {
		h.counts["cancelled"]++
	} else {
		h.counts["cancelled in vain"]++
	}
	delete(h.ends, id)
	return nil
}

// expire takes a few due entries: as many from each, of the same ends, though not always the same
// ones.
func (h *history) expire(most int) error {
	var due []timeout.Tick
	for _, end := range h.ends {
		if end <= h.now {
			due = append(due, end)
		}
	}
	slices.Sort(due)
	want := due[:min(most, len(due))]
	var taken [][]uint64
	for _, d := range h.all {
		buf := make([]uint64, most)
		n := d.s.Expire(buf)
		got := make([]timeout.Tick, 0, n)
		for _, id := range buf[:n] {
			end, pending := h.ends[id]
			if !pending {
				return fmt.Errorf("%s: Expire handed out %d, which is not pending", d.name, id)
			}
			got = append(got, end)
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("%s: Expire at %d handed out %v, which end at %d, want ends %d", d.name, h.now, buf[:n], got, want)
		}
		taken = append(taken, buf[:n])
	}
	// Entries of the last end may differ from structure to structure: all of them are taken.
	if len(want) == 0 {
		return nil
	}
	h.counts["expired"] += len(want)
	return h.takeRest(want[len(want)-1], taken)
}

// takeRest takes the remaining entries of the end at which the structures may differ.
func (h *history) takeRest(end timeout.Tick, taken [][]uint64) error {
	for i, d := range h.all {
		for _, id := range taken[i] {
			d.took([]uint64{id})
		}
	}
	var all []uint64
	for id, e := range h.ends {
		if e <= end {
			all = append(all, id)
		}
	}
	slices.Sort(all)
	for i, d := range h.all {
		rest := make([]uint64, len(all)-len(taken[i]))
		if n := d.s.Expire(rest); n != len(rest) {
			return fmt.Errorf("%s: Expire handed out %d of the last %d of end %d", d.name, n, len(rest), end)
		}
		d.took(rest)
		got := append(slices.Clone(taken[i]), rest...)
		slices.Sort(got)
		if !slices.Equal(got, all) {
			return fmt.Errorf("%s: up to end %d %v were handed out, want %v", d.name, end, got, all)
		}
	}
	for _, id := range all {
		delete(h.ends, id)
	}
	return nil
}

func (h *history) advance() error {
	to := h.now + timeout.Tick(h.rnd.Uint64N(20))
	if next, ok := h.all[0].s.Next(); ok && h.rnd.IntN(3) == 0 {
		to = next
	}
	if h.rnd.IntN(10) == 0 {
		to = h.now - min(h.now, 3) // back, without effect
	}
	if h.rnd.IntN(40) == 0 {
		to = h.endAfter(h.now, h.distance())
	}
	h.now = max(h.now, to)
	for _, d := range h.all {
		d.s.Advance(to)
	}
	h.counts["advanced"]++
	return nil
}

// compare compares everything observable.
func (h *history) compare() error {
	first, some := timeout.Tick(0), false
	for _, end := range h.ends {
		if !some || end < first {
			first, some = end, true
		}
	}
	for _, d := range h.all {
		if n := d.s.Len(); n != len(h.ends) {
			return fmt.Errorf("%s: Len() = %d, want %d", d.name, n, len(h.ends))
		}
		if now := d.s.Now(); now != h.now {
			return fmt.Errorf("%s: Now() = %d, want %d", d.name, now, h.now)
		}
		next, ok := d.s.Next()
		if ok != some || ok && next > max(first, h.now) {
			return fmt.Errorf("%s: Next() = %d, %v at %d, want %d at the latest, %v", d.name, next, ok, h.now, first, some)
		}
	}
	return nil
}
