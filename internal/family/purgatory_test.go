package family

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/timeout"
	"github.com/txmgr/txmgr/timeout/purgatory"
	"github.com/txmgr/txmgr/timeout/timeouttest"
)

// beat is a tick of a room.
const beat = time.Millisecond

// room is a purgatory of requests that nothing satisfies. It alone of the family has a clock: to advance is to sleep, in a
// bubble in which nobody has to wait for that. When the next ends, a purgatory does not tell; the room knows what it was given.
type room struct {
	p   *purgatory.Purgatory[uint64]
	now timeout.Tick

	mu      sync.Mutex
	entries map[uint64]*guest
	due     []*guest // by end; those that were cancelled since are not in entries
}

// guest is a request, and its handle.
type guest struct {
	room   *room
	id     uint64
	end    timeout.Tick
	parked *purgatory.Parked
}

func (g *guest) TryComplete() bool { return false }

func (g *guest) Complete(how purgatory.Outcome) {
	if how == purgatory.Expired {
		g.room.mu.Lock()
		defer g.room.mu.Unlock()
		g.room.due = append(g.room.due, g)
	}
}

func (r *room) Add(id uint64, end timeout.Tick) *guest {
	g := &guest{room: r, id: id, end: max(end, r.now)}
	r.entries[id] = g
	if end <= r.now {
		r.due = append(r.due, g)
	} else {
		g.parked, _ = r.p.Park(g, time.Duration(end-r.now)*beat, id)
	}
	return g
}

func (r *room) Cancel(id uint64, g *guest) bool {
	if g == nil || r.entries[id] != g {
		return false
	}
	delete(r.entries, id)
	r.due = slices.DeleteFunc(r.due, func(d *guest) bool { return d == g })
	g.parked.Cancel()
	return true
}

func (r *room) Advance(to timeout.Tick) {
	if to > r.now {
		<-time.After(time.Duration(to-r.now) * beat)
		synctest.Wait()
		r.now = to
	}
}

func (r *room) Expire(buf []uint64) int {
	n := min(len(buf), len(r.due))
	for i, g := range r.due[:n] {
		buf[i] = g.id
		delete(r.entries, g.id)
	}
	r.due = slices.Delete(r.due, 0, n)
	return n
}

func (r *room) Next() (first timeout.Tick, some bool) {
	for _, g := range r.entries {
		if !some || g.end < first {
			first, some = g.end, true
		}
	}
	return first, some
}

func (r *room) Len() int { return len(r.entries) }

func (r *room) Now() timeout.Tick { return r.now }

// TestThePurgatoryAgrees has all five live through the same histories.
func TestThePurgatoryAgrees(t *testing.T) {
	for name, others := range map[string][]timeouttest.Subject{
		"all":      subjects(),
		"far ends": slices.DeleteFunc(subjects(), func(s timeouttest.Subject) bool { return s.Horizon > 0 }),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { timeouttest.Same(t, append(others, purgatories(t))...) })
		})
	}
}

func purgatories(t *testing.T) timeouttest.Subject {
	return timeouttest.Subject{
		Name:    "purgatory",
		Horizon: 1 << 30, // 12 days: a bubble knows 262 years in all
		New: func(now timeout.Tick) timeout.Structure[any] {
			p, err := purgatory.Start[uint64](purgatory.Config{Tick: beat})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.Stop)
			return timeouttest.Boxed(&room{p: p, now: now, entries: map[uint64]*guest{}})
		},
	}
}
