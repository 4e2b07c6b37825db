package timeoutadapters

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

// tick is the tick of a purgatoryAdapter.
const tick = time.Millisecond

// purgatoryAdapter is a purgatory of requests that nothing satisfies. It is the only structure here
// with a clock: to advance is to sleep, in a synctest bubble without real waiting. A purgatory does
// not report its next end; the adapter records its entries.
type purgatoryAdapter struct {
	p   *purgatory.Purgatory[uint64]
	now timeout.Tick

	mu      sync.Mutex
	entries map[uint64]*request
	due     []*request // by end; those that were cancelled since are not in entries
}

// request is a request, and its handle.
type request struct {
	adapter *purgatoryAdapter
	id      uint64
	end     timeout.Tick
	parked  *purgatory.Parked
}

func (g *request) TryComplete() bool { return false }

func (g *request) Complete(how purgatory.Outcome) {
	if how == purgatory.Expired {
		g.adapter.mu.Lock()
		defer g.adapter.mu.Unlock()
		g.adapter.due = append(g.adapter.due, g)
	}
}

func (r *purgatoryAdapter) Add(id uint64, end timeout.Tick) *request {
	g := &request{adapter: r, id: id, end: max(end, r.now)}
	r.entries[id] = g
	if end <= r.now {
		r.due = append(r.due, g)
	} else {
		g.parked, _ = r.p.Park(g, time.Duration(end-r.now)*tick, id)
	}
	return g
}

func (r *purgatoryAdapter) Cancel(id uint64, g *request) bool {
	if g == nil || r.entries[id] != g {
		return false
	}
	delete(r.entries, id)
	r.due = slices.DeleteFunc(r.due, func(d *request) bool { return d == g })
	g.parked.Cancel()
	return true
}

func (r *purgatoryAdapter) Advance(to timeout.Tick) {
	if to > r.now {
		<-time.After(time.Duration(to-r.now) * tick)
		synctest.Wait()
		r.now = to
	}
}

func (r *purgatoryAdapter) Expire(buf []uint64) int {
	n := min(len(buf), len(r.due))
	for i, g := range r.due[:n] {
		buf[i] = g.id
		delete(r.entries, g.id)
	}
	r.due = slices.Delete(r.due, 0, n)
	return n
}

func (r *purgatoryAdapter) Next() (first timeout.Tick, some bool) {
	for _, g := range r.entries {
		if !some || g.end < first {
			first, some = g.end, true
		}
	}
	return first, some
}

func (r *purgatoryAdapter) Len() int { return len(r.entries) }

func (r *purgatoryAdapter) Now() timeout.Tick { return r.now }

// TestThePurgatoryAgrees drives all five with the same histories.
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
			p, err := purgatory.Start[uint64](purgatory.Config{Tick: tick})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.Stop)
			return timeouttest.Boxed(&purgatoryAdapter{p: p, now: now, entries: map[uint64]*request{}})
		},
	}
}
