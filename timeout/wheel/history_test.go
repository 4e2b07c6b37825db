package wheel

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/txmgr/txmgr/timeout"
)

const year = 365 * 24 * 3600 * 10 // ticks of 100 ms

// history drives a wheel and its model with the same calls and compares all results.
type history struct {
	wheel   *Wheel[int]
	model   model
	tasks   []*Task[int] // all ever added, gone ones included; Value is when, counted in calls of add
	added   int
	strange *Task[int] // waits in another wheel
	other   *Wheel[int]
	ends    map[timeout.Tick]bool // of all ever added
	steps   bool                  // a bucket held so many that Next may be a step
}

type fataler interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// newHistory begins with a wheel whose steps are small, so that histories of a few tasks have them.
func newHistory(now timeout.Tick, size, step int) *history {
	h := &history{wheel: New[int](now, size), model: model{now: now}, ends: make(map[timeout.Tick]bool)}
	h.wheel.step = step
	h.other, h.strange = New[int](now, size), &Task[int]{}
	h.other.Add(h.strange, now+1)
	return h
}

func (h *history) add(t fataler, end timeout.Tick) {
	t.Helper()
	task := &Task[int]{}
	h.tasks = append(h.tasks, task)
	h.addAgain(t, task, end)
}

// addAgain adds a task that may wait already.
func (h *history) addAgain(t fataler, task *Task[int], end timeout.Tick) {
	t.Helper()
	waits := h.model.find(task) >= 0
	before, level := *task, h.level(end)
	if h.wheel.Add(task, end) == waits {
		t.Fatalf("Add = %v for a task that waits: %v", !waits, waits)
	}
	if waits {
		if *task != before {
			t.Fatal("a refused Add changed the task")
		}
		return
	}
	h.added++
	task.Value = h.added
	h.model.add(task, end)
	h.ends[max(end, h.model.now)] = true
	if task.End() != max(end, h.model.now) {
		t.Fatalf("End = %d after Add of %d at %d", task.End(), end, h.model.now)
	}
	if late := task.bucket == &h.wheel.due; late != (end <= h.model.now) || !late && task.bucket.level > level {
		t.Fatalf("a task of %d came to level %d at %d, want %d or lower", end, task.bucket.level, h.model.now, level)
	}
}

// level returns the highest level to which a task of end may come: one on which others wait that came before it, or the
// lowest that covers its end.
func (h *history) level(end timeout.Tick) int {
	if end <= h.model.now {
		return 0
	}
	lowest := h.wheel.lowest(end)
	for level := len(h.wheel.levels) - 1; level > lowest; level-- {
		if h.wheel.bucketAt(level, end).count > 0 {
			return level
		}
	}
	return lowest
}

func (h *history) cancel(t fataler, task *Task[int]) {
	t.Helper()
	want := h.model.cancel(task)
	if got := h.wheel.Cancel(task); got != want {
		t.Fatalf("Cancel = %v, want %v", got, want)
	}
}

func (h *history) advance(to timeout.Tick) {
	h.wheel.Advance(to)
	h.model.now = max(h.model.now, to)
}

func (h *history) pop(t fataler) *Task[int] {
	t.Helper()
	got, want := h.wheel.Pop(), h.model.pop()
	if got != want {
		t.Fatalf("Pop = %+v at %d, want %+v", got, h.model.now, want)
	}
	return got
}

func (h *history) compare(t fataler) {
	t.Helper()
	if err := h.wheel.check(func(t *Task[int]) int { return t.Value }); err != nil {
		t.Fatalf("at %d: %v", h.model.now, err)
	}
	if h.wheel.Now() != h.model.now || h.wheel.Len() != len(h.model.waiting) {
		t.Fatalf("Now, Len = %d, %d; want %d, %d", h.wheel.Now(), h.wheel.Len(), h.model.now, len(h.model.waiting))
	}
	waits := make(map[*Task[int]]bool)
	for _, e := range h.model.waiting {
		waits[e.task] = true
		if e.task.End() != e.end {
			t.Fatalf("End = %d, want %d", e.task.End(), e.end)
		}
	}
	for _, task := range h.tasks {
		switch {
		case task.Queued() != waits[task]:
			t.Fatalf("Queued = %v, the twin says %v", task.Queued(), waits[task])
		case !waits[task] && (task.prev != nil || task.next != nil):
			t.Fatal("a task that is gone still knows others")
		}
	}
	h.compareNext(t)
	if !h.strange.Queued() || h.other.Len() != 1 {
		t.Fatal("the other wheel was touched")
	}
}

func (h *history) compareNext(t fataler) {
	t.Helper()
	next, ok := h.wheel.Next()
	if ok != (len(h.model.waiting) > 0) {
		t.Fatalf("Next = %d, %v with %d waiting", next, ok, len(h.model.waiting))
	}
	if !ok {
		return
	}
	switch first := h.model.waiting[0].end; {
	case next > first:
		t.Fatalf("Next = %d, after the first end %d", next, first)
	case h.steps:
	case !h.ends[next]:
		t.Fatalf("Next = %d, at which nothing ever ended", next)
	}
}

// TestModel compares the wheel with a sorted list in random histories, and checks everything after
// each step: all invariants of the package doc but 9.
func TestModel(t *testing.T) { rapid.Check(t, runHistory) }

// FuzzModel is TestModel with histories that the fuzzer finds.
func FuzzModel(f *testing.F) { f.Fuzz(rapid.MakeFuzz(runHistory)) }

func runHistory(t *rapid.T) {
	size := rapid.SampledFrom([]int{2, 4, 16, DefaultSize}).Draw(t, "size")
	step := rapid.SampledFrom([]int{1, 2, 5, math.MaxInt}).Draw(t, "step")
	now := rapid.SampledFrom([]timeout.Tick{0, 1, 63, 1 << 40, math.MaxUint64 - 3*year}).Draw(t, "now")
	h := newHistory(now, size, step)
	h.steps = step != math.MaxInt
	block := uint64(h.wheel.span(1))
	end := rapid.Custom(func(t *rapid.T) timeout.Tick {
		ahead := rapid.OneOf(
			rapid.Uint64Range(1, 4),
			rapid.Uint64Range(1, 3*block),
			rapid.Uint64Range(block-1, block+1),
			rapid.Uint64Range(1, 3*block*block),
			rapid.Map(rapid.Uint64Range(1, 5), func(n uint64) uint64 { return n * block * block }),
			rapid.Uint64Range(1, year),
			rapid.SampledFrom([]uint64{1 << 63, math.MaxUint64 - 1, math.MaxUint64}),
		).Draw(t, "ahead")
		if end := h.wheel.Now() + timeout.Tick(ahead); end > h.wheel.Now() {
			return end
		}
		return math.MaxUint64
	})
	past := rapid.Custom(func(t *rapid.T) timeout.Tick {
		ago := rapid.Uint64Range(0, 2*block*block).Draw(t, "ago")
		return h.wheel.Now() - min(h.wheel.Now(), timeout.Tick(ago))
	})
	one := func(t *rapid.T) *Task[int] { return rapid.SampledFrom(h.tasks).Draw(t, "task") }
	ahead := func(most uint64) func(*rapid.T) {
		return func(t *rapid.T) {
			ticks := timeout.Tick(rapid.Uint64Range(1, most).Draw(t, "ticks"))
			h.advance(h.wheel.Now() + min(ticks, math.MaxUint64-h.wheel.Now()))
		}
	}
	h.add(t, end.Draw(t, "end"))
	t.Repeat(map[string]func(*rapid.T){
		"":         func(t *rapid.T) { h.compare(t) },
		"add":      func(t *rapid.T) { h.add(t, end.Draw(t, "end")) },
		"add past": func(t *rapid.T) { h.add(t, past.Draw(t, "end")) },
		"add many with one end": func(t *rapid.T) {
			e := end.Draw(t, "end")
			for range rapid.IntRange(2, 20).Draw(t, "n") {
				h.add(t, e)
			}
		},
		"add scattered": func(t *rapid.T) {
			for range rapid.IntRange(2, 30).Draw(t, "n") {
				h.add(t, end.Draw(t, "end"))
				h.compare(t)
			}
		},
		"add beside another": func(t *rapid.T) {
			if e := one(t).End(); e < math.MaxUint64 {
				h.add(t, e+timeout.Tick(rapid.IntRange(0, 1).Draw(t, "ticks")))
			}
		},
		"add again": func(t *rapid.T) { h.addAgain(t, one(t), end.Draw(t, "end")) },
		"add what waits elsewhere": func(t *rapid.T) {
			if h.wheel.Add(h.strange, end.Draw(t, "end")) {
				t.Fatal("added a task that waits in another wheel")
			}
		},
		"cancel":       func(t *rapid.T) { h.cancel(t, one(t)) },
		"cancel twice": func(t *rapid.T) { task := one(t); h.cancel(t, task); h.cancel(t, task) },
		"cancel many": func(t *rapid.T) {
			for range rapid.IntRange(2, 30).Draw(t, "n") {
				h.cancel(t, one(t))
			}
		},
		"cancel what waits elsewhere": func(t *rapid.T) { h.cancel(t, h.strange) },
		"cancel a copy of what is gone": func(t *rapid.T) {
			if task := one(t); !task.Queued() {
				c := *task
				h.cancel(t, &c)
			}
		},
		"advance one":    ahead(1),
		"advance some":   ahead(2 * block),
		"advance many":   ahead(3 * block * block),
		"advance a year": ahead(year),
		"advance to next": func(t *rapid.T) {
			next, _ := h.wheel.Next()
			h.advance(next)
		},
		"advance before next": func(t *rapid.T) {
			if next, _ := h.wheel.Next(); next > h.wheel.Now() {
				h.advance(next - 1)
				if h.wheel.Pop() != nil {
					t.Fatalf("something is due one tick before Next, %d", next)
				}
			}
		},
		"go back": func(t *rapid.T) { h.advance(past.Draw(t, "to")) },
		"pop":     func(t *rapid.T) { h.pop(t) },
		"pop and add again": func(t *rapid.T) {
			if task := h.pop(t); task != nil {
				h.addAgain(t, task, end.Draw(t, "end"))
			}
		},
		"pop all": func(t *rapid.T) {
			for h.pop(t) != nil {
				h.compare(t)
			}
		},
	})
}
