package wheel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/txmgr/txmgr/timeout"
)

// TestLong runs long histories of a steady load, in which blocks follow blocks, and checks
// everything after each step.
func TestLong(t *testing.T) {
	for _, tt := range []struct{ size, step, steps int }{
		{2, 1, 4000}, {4, 2, 4000}, {8, 10, 4000}, {DefaultSize, 3, 2000}, {DefaultSize, step, 2000},
	} {
		t.Run(fmt.Sprintf("size=%d,step=%d", tt.size, tt.step), func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			h := newHistory(timeout.Tick(r.Uint64N(1000)), tt.size, tt.step)
			h.steps = tt.step < step
			horizon := 3 * uint64(h.wheel.span(2))
			for range tt.steps {
				switch x := r.IntN(100); {
				case x < 60:
					ahead := 1 + r.Uint64N(horizon)
					if r.IntN(3) == 0 {
						ahead = 1 + r.Uint64N(horizon/20+1)
					}
					h.add(t, h.wheel.Now()+timeout.Tick(ahead))
				case x < 85 && len(h.model.waiting) > 0:
					h.cancel(t, h.model.waiting[r.IntN(len(h.model.waiting))].task)
				default:
					h.advance(h.wheel.Now() + timeout.Tick(r.Uint64N(horizon/100+2)))
					for h.pop(t) != nil {
						if err := h.wheel.check(func(t *Task[int]) int { return t.Value }); err != nil {
							t.Fatal(err)
						}
					}
				}
				h.compare(t)
			}
			h.advance(math.MaxUint64)
			for h.pop(t) != nil {
			}
			h.compare(t)
			if h.wheel.Len() != 0 {
				t.Errorf("%d tasks never ended", h.wheel.Len())
			}
		})
	}
}

// The cost of a jump must depend on the tasks that end in it, not on its length: a wheel that
// walked a year of ticks for each of these would take minutes.
func TestAdvanceFar(t *testing.T) {
	w := New[int](0, 0)
	var task Task[int]
	for range 1000 {
		end := w.Now() + year
		w.Add(&task, end)
		w.Advance(end - 1)
		if got := w.Pop(); got != nil {
			t.Fatalf("due at %d, one tick before %d", w.Now(), end)
		}
		w.Advance(end)
		if got := w.Pop(); got != &task {
			t.Fatalf("Pop = %v at %d, want the task", got, end)
		}
	}
}

// Of many tasks, all that a jump has passed come out, in order, and no others.
func TestYearAtOnce(t *testing.T) {
	const tasks = 100_000
	r := rand.New(rand.NewPCG(1, 2))
	w := New[int](5, 0)
	all := make([]Task[int], tasks)
	passed := 0
	for i := range all {
		all[i].Value = i
		end := 5 + timeout.Tick(r.Uint64N(2*year))
		w.Add(&all[i], end)
		if end <= 5+year {
			passed++
		}
	}
	w.Advance(5 + year)
	var last timeout.Tick
	for task := w.Pop(); task != nil; task = w.Pop() {
		if task.End() < last || task.End() > w.Now() {
			t.Fatalf("a task of %d came after one of %d at %d", task.End(), last, w.Now())
		}
		last = task.End()
		passed--
	}
	if passed != 0 {
		t.Errorf("%d tasks were lost", passed)
	}
	if err := w.check(func(t *Task[int]) int { return t.Value }); err != nil {
		t.Error(err)
	}
}

// TestCascadeIsSpread counts how many tasks leave the higher levels at a tick.
func TestCascadeIsSpread(t *testing.T) {
	const tasks = 200_000
	for _, tt := range []struct {
		name        string
		from, spans uint64 // ticks
		most        int    // tasks that may move at a tick
	}{
		{"ten minutes", 1, 6000, 4 * step},
		{"a day", 1, 864_000, 4 * step},
		// There are 64 ticks for all of them, so a step has to be larger.
		{"one bucket", 10 * DefaultSize, DefaultSize, tasks/DefaultSize + step},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			w := New[int](0, DefaultSize)
			all := make([]Task[int], tasks)
			for i := range all {
				w.Add(&all[i], timeout.Tick(tt.from+r.Uint64N(tt.spans)))
			}
			// Tasks that have moved down by a level count once.
			height := func() (sum, largest int) {
				for level, buckets := range w.levels {
					for i := range buckets {
						sum += level * buckets[i].count
						largest = max(largest, buckets[i].count)
					}
				}
				return sum, largest
			}
			most := 0
			before, largest := height()
			for w.Len() > 0 {
				w.Advance(w.Now() + 1)
				after, _ := height()
				most = max(most, before-after)
				before = after
				for w.Pop() != nil {
				}
			}
			t.Logf("at most %d levels of a task at a tick, the largest bucket held %d", most, largest)
			if largest < 2*tt.most || most > tt.most {
				t.Errorf("tasks came down %d levels at one tick, at most %d are right; the largest bucket held %d", most, tt.most, largest)
			}
		})
	}
}

// TestStepsAreSpread checks at which ticks a bucket shrinks: a task that is moved down late may be
// cancelled before.
func TestStepsAreSpread(t *testing.T) {
	const start = 10 * DefaultSize
	w := New[int](0, DefaultSize)
	for i := range 4 * step {
		w.Add(&Task[int]{}, start+timeout.Tick(i%DefaultSize))
	}
	b := w.bucketAt(1, start)
	var got []timeout.Tick
	for count := b.count; w.Now() < start; count = b.count {
		w.Advance(w.Now() + 1)
		for w.Pop() != nil {
		}
		if b.count < count {
			got = append(got, start-w.Now())
		}
	}
	if want := []timeout.Tick{64, 43, 22, 0}; !slices.Equal(got, want) {
		t.Errorf("steps so many ticks before the end: %v, want %v", got, want)
	}
}

// A burst of tasks for the block that follows finds a bucket above it in use. It must not make that bucket grow, or all of
// them would have to come down at once.
func TestBurst(t *testing.T) {
	for _, waiting := range []int{1, step, 10 * step} {
		w := New[int](0, DefaultSize)
		const start = 40 * DefaultSize
		for i := range waiting {
			w.Add(&Task[int]{}, start+timeout.Tick(i%DefaultSize))
		}
		w.Advance(start - 1)
		above := w.bucketAt(1, start)
		for i := range 100_000 {
			before := above.count
			w.Add(&Task[int]{}, start+timeout.Tick(i%DefaultSize))
			if above.count > 0 && above.count >= before {
				t.Fatalf("task %d made the bucket grow from %d to %d", i, before, above.count)
			}
		}
		if above.count != 0 || w.queue.Len() != DefaultSize {
			t.Errorf("%d tasks are above, %d buckets below", above.count, w.queue.Len())
		}
		w.Advance(start + DefaultSize)
		n := 0
		for w.Pop() != nil {
			n++
		}
		if n != 100_000+waiting {
			t.Errorf("%d tasks came out of %d", n, 100_000+waiting)
		}
	}
}

// TestAwakenings follows Next from wakeup to wakeup, as the owner of a wheel does.
func TestAwakenings(t *testing.T) {
	follow := func(w *Wheel[int]) (n int) {
		for next, ok := w.Next(); ok; next, ok = w.Next() {
			w.Advance(next)
			for w.Pop() != nil {
			}
			n++
		}
		return n
	}
	for _, tt := range []struct {
		name           string
		tasks, horizon int
		cancel         int // one of how many is cancelled; 0: none
	}{
		{"one", 1, year, 0},
		{"a few", 5, 1000, 0},
		{"sparse", 200, 10 * year, 0},
		{"sparse, most cancelled", 2000, year, 1},
		{"dense", 200, 100, 0},
		{"one bucket of many", 20_000, 1_000_000_000, 0},
		{"crowded", 50_000, 100_000, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			w := New[int](7, 0)
			ends := make(map[timeout.Tick]bool)
			for i := range tt.tasks {
				var task Task[int]
				end := 8 + timeout.Tick(r.Uint64N(uint64(tt.horizon)))
				w.Add(&task, end)
				ends[end] = true
				if tt.cancel > 0 && i%(tt.cancel+1) < tt.cancel {
					w.Cancel(&task)
				}
			}
			// A step moves 256 tasks, unless it is the last one of a bucket that held more; a task moves once per level.
			got, most := follow(w), len(ends)+2*len(w.levels)*(tt.tasks/step)
			t.Logf("%d awakenings for %d ends", got, len(ends))
			if got > most || tt.cancel == 0 && got < len(ends) {
				t.Errorf("%d awakenings for %d ends, at most %d are right", got, len(ends), most)
			}
		})
	}
}

// The size is rounded up, and a level is made when a task first needs it.
func TestSizes(t *testing.T) {
	for _, tt := range []struct{ size, buckets, most int }{
		{-1, 2 * DefaultSize, 11},
		{0, 2 * DefaultSize, 11},
		{1, 4, 64},
		{2, 4, 64},
		{3, 8, 32},
		{20, 64, 13},
		{1000, 2048, 7},
		{MaxSize, 2 * MaxSize, 4},
		{math.MaxInt, 2 * MaxSize, 4},
	} {
		w := New[int](0, tt.size)
		if len(w.levels) != 1 || len(w.levels[0]) != tt.buckets {
			t.Errorf("size %d: %d levels of %d buckets, want 1 of %d", tt.size, len(w.levels), len(w.levels[0]), tt.buckets)
		}
		var near, far Task[int]
		w.Add(&near, timeout.Tick(tt.buckets)-1)
		if len(w.levels) != 1 {
			t.Errorf("size %d: a near task made a level", tt.size)
		}
		w.Add(&far, math.MaxUint64)
		if n := len(w.levels); n < 2 || n > tt.most {
			t.Errorf("size %d: %d levels, at most %d", tt.size, n, tt.most)
		}
		if next, ok := w.Next(); !ok || next != near.End() {
			t.Errorf("size %d: Next = %d, want %d", tt.size, next, near.End())
		}
		w.Advance(math.MaxUint64 - 1)
		if w.Pop() != &near || w.Pop() != nil {
			t.Errorf("size %d: the near task alone should be due", tt.size)
		}
		w.Advance(math.MaxUint64)
		if w.Pop() != &far || w.Len() != 0 {
			t.Errorf("size %d: the far task should be due", tt.size)
		}
	}
}

// At the largest tick no task can wait any more.
func TestEndOfTime(t *testing.T) {
	w := New[int](math.MaxUint64, 0)
	var a, b Task[int]
	w.Add(&a, math.MaxUint64)
	w.Add(&b, 3)
	w.Advance(math.MaxUint64)
	if w.Pop() != &a || w.Pop() != &b || w.Pop() != nil || b.End() != math.MaxUint64 {
		t.Errorf("want both tasks, due at the last tick: %+v, %+v", a, b)
	}
}

func TestNothingIsRefused(t *testing.T) {
	w := New[int](0, 0)
	if w.Add(nil, 1) || w.Cancel(nil) || w.Cancel(&Task[int]{}) || w.Pop() != nil || w.Len() != 0 {
		t.Error("the empty wheel accepted what is no task of it")
	}
	if next, ok := w.Next(); ok {
		t.Errorf("Next = %d of an empty wheel", next)
	}
}

// A task that is due can be cancelled until it is taken, and an Advance over it changes nothing.
func TestCancelOfWhatIsDue(t *testing.T) {
	w := New[int](0, 0)
	var a, b, late Task[int]
	w.Add(&a, 5)
	w.Add(&b, 5)
	w.Advance(9)
	w.Add(&late, 2)
	if !w.Cancel(&a) || !w.Cancel(&late) || w.Len() != 1 {
		t.Error("cancel of what is due was refused")
	}
	if w.Pop() != &b || w.Pop() != nil {
		t.Error("want the task that was not cancelled, and nothing else")
	}
}

// A task that is added again and again with a past end comes again and again, but behind the
// others.
func TestAddDuringExpiry(t *testing.T) {
	w := New[int](10, 0)
	again, others := Task[int]{Value: -1}, make([]Task[int], 10)
	for i := range others {
		others[i].Value = i
		w.Add(&others[i], timeout.Tick(11+i))
	}
	w.Add(&again, 0)
	w.Advance(20)
	var got []int
	for len(got) < 15 {
		task := w.Pop()
		got = append(got, task.Value)
		if task == &again {
			w.Add(task, 0)
		}
	}
	if want := "[-1 0 1 2 3 4 5 6 7 8 9 -1 -1 -1 -1]"; fmt.Sprint(got) != want {
		t.Errorf("came out as %v, want %v", got, want)
	}
}

// A wheel at a steady load must not allocate.
func TestSteadyStateDoesNotAllocate(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	w := New[int](0, 0)
	tasks := make([]Task[int], 5000)
	round := func() {
		for range 50 {
			task := &tasks[r.IntN(len(tasks))]
			w.Cancel(task)
			w.Add(task, w.Now()+1+timeout.Tick(r.Uint64N(6000)))
		}
		w.Advance(w.Now() + 1)
		for w.Pop() != nil {
		}
	}
	for range 10_000 {
		round()
	}
	if n := testing.AllocsPerRun(1000, round); n != 0 {
		t.Errorf("%v allocations per round of 50 pairs, want 0", n)
	}
}
