package hashbelt_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/txmgr/txmgr/timeout"
	"github.com/txmgr/txmgr/timeout/hashbelt"
	"github.com/txmgr/txmgr/timeout/timeouttest"
)

// deadlines makes a ring a structure of deadlines, as the package doc describes.
type deadlines struct {
	ring   *hashbelt.Ring[uint64, deadline]
	due    []uint64          // taken off the ring, cancelled ones included
	open   map[uint64]ticket // those of them that are not cancelled
	issued ticket
}

type ticket uint64

type deadline struct {
	end    timeout.Tick
	ticket ticket
}

var _ timeout.Structure[ticket] = (*deadlines)(nil)

func newDeadlines(containers int, now timeout.Tick) *deadlines {
	ring, err := hashbelt.NewRing(containers, now, hashbelt.NewMapList[uint64, deadline])
	if err != nil {
		panic(err) // the numbers are constants of the tests
	}
	return &deadlines{ring: ring, open: map[uint64]ticket{}}
}

func (d *deadlines) Add(id uint64, end timeout.Tick) ticket {
	d.issued++
	d.add(id, deadline{end, d.issued})
	return d.issued
}

// add adds an entry: one whose end has passed is due, one beyond the ring waits at the front.
func (d *deadlines) add(id uint64, e deadline) {
	if e.end <= d.ring.Now() || d.ring.Add(id, e, min(e.end, d.ring.Front())) != nil {
		d.due = append(d.due, id)
		d.open[id] = e.ticket
	}
}

func (d *deadlines) Cancel(id uint64, h ticket) bool {
	if e, _, ok := d.ring.Get(id); ok && e.ticket == h {
		d.ring.Remove(id)
		return true
	}
	if t, ok := d.open[id]; ok && t == h {
		delete(d.open, id)
		d.due = slices.DeleteFunc(d.due, func(other uint64) bool { return other == id })
		return true
	}
	return false
}

func (d *deadlines) Advance(to timeout.Tick) {
	type entry struct {
		id uint64
		deadline
	}
	var off []entry
	for gone := d.ring.Advance(to); gone != nil; gone = d.ring.Advance(to) {
		for id, e := range gone.All() {
			off = append(off, entry{id, e})
		}
	}
	// What waited at the front falls off among those that end, in no order.
	slices.SortStableFunc(off, func(a, b entry) int { return cmp.Compare(a.end, b.end) })
	for _, e := range off {
		d.add(e.id, e.deadline)
	}
}

func (d *deadlines) Expire(buf []uint64) int {
	n := copy(buf, d.due)
	for _, id := range d.due[:n] {
		delete(d.open, id)
	}
	d.due = slices.Delete(d.due, 0, n)
	return n
}

func (d *deadlines) Next() (timeout.Tick, bool) {
	if len(d.due) > 0 {
		return d.ring.Now(), true
	}
	return d.ring.Next()
}

func (d *deadlines) Len() int { return d.ring.Len() + len(d.due) }

func (d *deadlines) Now() timeout.Tick { return d.ring.Now() }

// TestContract tests a ring against the contract of package timeout, for ends within its
// containers.
func TestContract(t *testing.T) {
	for _, containers := range []int{63, 64, 8192} {
		t.Run(fmt.Sprint(containers), func(t *testing.T) {
			timeouttest.Run(t, timeouttest.Subject{
				Name:    "hashbelt",
				Horizon: timeout.Tick(containers),
				New: func(now timeout.Tick) timeout.Structure[any] {
					return timeouttest.Boxed(newDeadlines(containers, now))
				},
			})
		})
	}
}

// TestDeadlines compares a ring as a structure of deadlines with a sorted list, also for ends far
// beyond its containers.
func TestDeadlines(t *testing.T) {
	const year = 365 * 24 * 3600 * 10
	rapid.Check(t, func(t *rapid.T) {
		type entry struct {
			id     uint64
			end    timeout.Tick
			ticket ticket
		}
		now := rapid.SampledFrom([]timeout.Tick{0, 1 << 33}).Draw(t, "now")
		d := newDeadlines(rapid.SampledFrom([]int{1, 3, 64, 1000}).Draw(t, "containers"), now)
		var ids uint64
		var pending []entry // by end
		ahead := rapid.OneOf(rapid.Uint64Range(0, 5), rapid.Uint64Range(0, 200), rapid.Uint64Range(0, 3000), rapid.Uint64Range(0, year))
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				ids++
				end := now + timeout.Tick(ahead.Draw(t, "ahead"))
				e := entry{ids, end, d.Add(ids, end)}
				at, _ := slices.BinarySearchFunc(pending, end+1, func(e entry, end timeout.Tick) int { return cmp.Compare(e.end, end) })
				pending = slices.Insert(pending, at, e)
			},
			"add passed": func(t *rapid.T) {
				ids++
				ticket := d.Add(ids, now-min(now, timeout.Tick(ahead.Draw(t, "ago"))))
				at, _ := slices.BinarySearchFunc(pending, now+1, func(e entry, end timeout.Tick) int { return cmp.Compare(e.end, end) })
				pending = slices.Insert(pending, at, entry{ids, now, ticket})
			},
			"cancel": func(t *rapid.T) {
				id := rapid.Uint64Range(1, ids+1).Draw(t, "id")
				at := slices.IndexFunc(pending, func(e entry) bool { return e.id == id })
				if at < 0 {
					if d.Cancel(id, ticket(id)) {
						t.Fatalf("cancelled %d, which is gone", id)
					}
					return
				}
				e := pending[at]
				if d.Cancel(id, e.ticket+1) {
					t.Fatalf("cancelled %d with a foreign ticket", id)
				}
				if !d.Cancel(id, e.ticket) {
					t.Fatalf("did not cancel %d", id)
				}
				pending = slices.Delete(pending, at, at+1)
			},
			"advance": func(t *rapid.T) {
				to := now + timeout.Tick(ahead.Draw(t, "by"))
				d.Advance(to)
				now = to
			},
			"advance back": func(t *rapid.T) { d.Advance(now - min(now, timeout.Tick(ahead.Draw(t, "by")))) },
			"advance to next": func(t *rapid.T) {
				if next, ok := d.Next(); ok && next > now {
					if first := pending[0].end; next > first {
						t.Fatalf("Next = %d, after the first end %d", next, first)
					}
					d.Advance(next)
					now = next
				}
			},
			"expire": func(t *rapid.T) {
				buf := make([]uint64, rapid.IntRange(0, 8).Draw(t, "size"))
				for i, id := range buf[:d.Expire(buf)] {
					at := slices.IndexFunc(pending, func(e entry) bool { return e.id == id })
					if at < 0 || pending[at].end > now || pending[at].end != pending[0].end {
						t.Fatalf("expired %d in place %d at %d of %v", id, i, now, pending)
					}
					pending = slices.Delete(pending, at, at+1)
				}
			},
			"": func(t *rapid.T) {
				if d.Len() != len(pending) || d.Now() != now {
					t.Fatalf("Len, Now = %d, %d; want %d, %d", d.Len(), d.Now(), len(pending), now)
				}
				next, ok := d.Next()
				if ok != (len(pending) > 0) || ok && next > max(now, pending[0].end) {
					t.Fatalf("Next = %d, %v at %d of %v", next, ok, now, pending)
				}
			},
		})
		// All remaining entries come out, in the order of the ends.
		d.Advance(now + year + 1)
		buf := make([]uint64, len(pending)+1)
		if n := d.Expire(buf); n != len(pending) {
			t.Fatalf("%d of %d expired in the end", n, len(pending))
		}
		for i, e := range pending {
			if at := slices.IndexFunc(pending, func(o entry) bool { return o.id == buf[i] }); at < 0 || pending[at].end != e.end {
				t.Fatalf("place %d has %d, want an end of %d", i, buf[i], e.end)
			}
		}
	})
}
