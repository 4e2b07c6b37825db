package timeouttest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/txmgr/txmgr/timeout"
)

// Steps is the length of a random history, and Histories the number of histories in [Run] and
// [Same].
const (
	Steps     = 1000
	Histories = 60
)

// year is a year of ticks of 100 ms, and more.
const year = timeout.Tick(400 * 24 * 60 * 60 * 10)

// Run tests a structure against the contract.
func Run(t *testing.T, s Subject) {
	t.Run("histories", func(t *testing.T) { Same(t, s) })
	for name, test := range map[string]func(*testing.T, Subject){
		"an end that has passed": endPassed, "cancel": cancelEntries, "back": advanceBack, "a year": advanceYear, "the last tick": lastTick,
		"in batches": inBatches, "between batches": betweenBatches, "to the next": advanceToNext, "twice": sameCallsTwice,
	} {
		t.Run(name, func(t *testing.T) { test(t, s) })
	}
}

// Same drives structures, and a [List], with the same random histories, and compares everything
// observable after each step.
func Same(t *testing.T, subjects ...Subject) {
	t.Helper()
	counts := map[string]int{}
	for seed := range uint64(Histories) {
		if err := runHistory(seed, counts, subjects); err != nil {
			t.Fatalf("history %d: %v", seed, err)
		}
	}
	for _, what := range []string{"added", "cancelled", "cancelled in vain", "expired", "advanced"} {
		if counts[what] < Histories {
			t.Errorf("%s: %d times in %d histories: they are worth nothing", what, counts[what], Histories)
		}
	}
}

func runHistory(seed uint64, counts map[string]int, subjects []Subject) error {
	rnd := rand.New(rand.NewPCG(seed, 1))
	h := &history{rnd: rnd, ends: map[uint64]timeout.Tick{}, counts: counts, reuse: seed%2 == 0, now: timeout.Tick(rnd.Uint64N(1000))}
	if seed%5 == 0 {
		h.now = math.MaxUint64 - timeout.Tick(rnd.Uint64N(3000)) // near the largest tick
	}
	horizon := Subject{}
	h.all = append(h.all, newDriven("list", Boxed(NewList(h.now))))
	for _, s := range subjects {
		h.all = append(h.all, newDriven(s.Name, s.New(h.now)))
		if s.Horizon > 0 && (horizon.Horizon == 0 || s.Horizon < horizon.Horizon) {
			horizon.Horizon = s.Horizon
		}
	}
	h.endAfter = horizon.endAfter
	for i := range Steps {
		if err := h.step(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
		if err := h.compare(); err != nil {
			return fmt.Errorf("after step %d: %w", i, err)
		}
	}
	return nil
}

// due takes everything that is due and compares it.
func due(t *testing.T, s timeout.Structure[any], want ...uint64) {
	t.Helper()
	got, err := drain(s, 3)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Errorf("at %d %v were due, want %v", s.Now(), got, want)
	}
}

func endPassed(t *testing.T, subject Subject) {
	s := subject.New(100)
	for id, end := range []timeout.Tick{0, 1, 99, 100} {
		s.Add(uint64(id)+1, end)
	}
	s.Add(9, 101)
	due(t, s, 1, 2, 3, 4)
	s.Advance(101)
	due(t, s, 9)
}

func cancelEntries(t *testing.T, subject Subject) {
	s, other := subject.New(10), subject.New(10)
	one, two := s.Add(1, 15), s.Add(2, 15)
	foreign := other.Add(3, 15)
	try := func(what string, id uint64, h any, want bool) {
		t.Helper()
		if got := s.Cancel(id, h); got != want {
			t.Errorf("cancelling %s: %v, want %v", what, got, want)
		}
	}
	try("a handle of another structure", 3, foreign, false)
	try("one with the handle of another", 1, two, false)
	try("one with no handle", 1, nil, false)
	try("what was never there", 7, one, false)
	try("one", 1, one, true)
	try("one again", 1, one, false)
	again := s.Add(1, 15)
	s.Advance(15)
	try("what is due", 1, again, true)
	due(t, s, 2)
	try("what was taken", 2, two, false)
	if s.Len() != 0 || other.Len() != 1 {
		t.Errorf("%d and %d are left, want 0 and 1", s.Len(), other.Len())
	}
}

func advanceBack(t *testing.T, subject Subject) {
	s := subject.New(50)
	s.Add(1, 60)
	s.Advance(55)
	s.Advance(40)
	if s.Now() != 55 {
		t.Errorf("Now() = %d, want 55", s.Now())
	}
	due(t, s)
	s.Advance(60)
	due(t, s, 1)
}

// advanceYear would take minutes in a structure that visits every tick.
func advanceYear(t *testing.T, subject Subject) {
	s := subject.New(0)
	for range 1000 {
		now := s.Now()
		s.Add(1, subject.endAfter(now, 3))
		s.Add(2, subject.endAfter(now, year/2))
		s.Advance(now + year)
		due(t, s, 1, 2)
	}
}

func lastTick(t *testing.T, subject Subject) {
	s := subject.New(math.MaxUint64 - 20)
	s.Add(1, subject.endAfter(s.Now(), 20))
	s.Add(2, subject.endAfter(s.Now(), 5))
	s.Advance(math.MaxUint64 - 15)
	due(t, s, 2)
	s.Advance(math.MaxUint64 - 1)
	due(t, s)
	s.Advance(math.MaxUint64)
	due(t, s, 1)
	s.Add(3, math.MaxUint64)
	due(t, s, 3)
}

// inBatches takes many entries of one end, and of several, in batches of odd sizes, and of size
// zero.
func inBatches(t *testing.T, subject Subject) {
	s := subject.New(0)
	const n = 1000
	for id := range uint64(n) {
		s.Add(id+1, timeout.Tick(id%4))
	}
	s.Advance(5)
	if got := s.Expire(nil); got != 0 {
		t.Errorf("Expire into nothing answered %d", got)
	}
	last, seen := timeout.Tick(0), map[uint64]bool{}
	for size := 1; s.Len() > 0; size = size%17 + 1 {
		buf := make([]uint64, size)
		got := s.Expire(buf)
		if got == 0 {
			t.Fatalf("%d are pending, and none is due", s.Len())
		}
		for _, id := range buf[:got] {
			end := timeout.Tick((id - 1) % 4)
			if end < last || seen[id] {
				t.Fatalf("%d of end %d came behind end %d, or twice", id, end, last)
			}
			last, seen[id] = end, true
		}
	}
	if len(seen) != n {
		t.Errorf("%d were handed out, want %d", len(seen), n)
	}
}

// betweenBatches adds and cancels while due entries are being taken.
func betweenBatches(t *testing.T, subject Subject) {
	s := subject.New(0)
	handles := map[uint64]any{}
	for id := range uint64(10) {
		handles[id+1] = s.Add(id+1, 5)
	}
	s.Advance(5)
	seen := map[uint64]bool{}
	buf := make([]uint64, 1)
	for s.Expire(buf) == 1 {
		id := buf[0]
		if seen[id] || handles[id] == nil {
			t.Fatalf("%d was handed out twice, or was cancelled", id)
		}
		seen[id] = true
		if len(seen) == 3 {
			s.Add(20, 5) // due at once
			handles[20] = true
			for other := range handles {
				if !seen[other] && other <= 10 {
					if !s.Cancel(other, handles[other]) {
						t.Fatalf("%d, which is due, was not cancelled", other)
					}
					delete(handles, other)
					break
				}
			}
		}
	}
	if len(seen) != 10 || !seen[20] {
		t.Errorf("%v were handed out, want 9 of 10 and 20", seen)
	}
}

// advanceToNext goes from Next to Next, as a runner that sleeps until then: it arrives at all ends,
// and not too often.
func advanceToNext(t *testing.T, subject Subject) {
	s := subject.New(7)
	ends := map[uint64]timeout.Tick{}
	for id := range uint64(64) {
		end := subject.endAfter(7, 1<<min(id, 40)+timeout.Tick(id))
		s.Add(id+1, end)
		ends[id+1] = end
	}
	const most = 64 * 16 // levels of a wheel on the way to an end
	for range most {
		next, ok := s.Next()
		if !ok {
			break
		}
		s.Advance(next)
		ids, err := drain(s, 5)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			if ends[id] != s.Now() {
				t.Errorf("%d, whose end is %d, was due at %d", id, ends[id], s.Now())
			}
		}
	}
	if s.Len() > 0 {
		t.Errorf("%d are pending after %d steps to the next", s.Len(), most)
	}
}

// sameCallsTwice makes the same calls to two structures: the results are the same, in the same
// order.
func sameCallsTwice(t *testing.T, subject Subject) {
	run := func() (out []uint64) {
		rnd := rand.New(rand.NewPCG(4, 2))
		s := subject.New(0)
		handles := make([]any, 3000)
		buf := make([]uint64, 7)
		for id := range uint64(len(handles)) {
			handles[id] = s.Add(id+1, subject.endAfter(s.Now(), timeout.Tick(rnd.Uint64N(500))))
			if victim := rnd.Uint64N(id + 1); rnd.IntN(2) == 0 {
				s.Cancel(victim+1, handles[victim])
			}
			if rnd.IntN(4) == 0 {
				s.Advance(s.Now() + timeout.Tick(rnd.Uint64N(5)))
				out = append(out, buf[:s.Expire(buf)]...)
			}
		}
		return out
	}
	one, two := run(), run()
	if len(one) < 100 {
		t.Fatalf("only %d were handed out", len(one))
	}
	if !slices.Equal(one, two) {
		t.Error("the same calls had other results the second time")
	}
}
