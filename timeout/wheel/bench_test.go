package wheel

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/txmgr/txmgr/timeout"
)

const (
	million = 1_000_000
	horizon = 6000 // ticks: timeouts of up to ten minutes at 100 ms
	batch   = 1000 // short, so that the median is one without other programs on the processor
)

// contender is a set of timers. Its methods work on many at a time, so that the cost of a call
// through the interface is negligible.
type contender interface {
	// add sets a timer for every end and stores it in the slot of that number. Allocation is
	// included.
	add(slots []int, ends []timeout.Tick)
	// cancel stops the timers in the slots.
	cancel(slots []int)
}

var contenders = []struct {
	name string
	make func(slots int) contender
}{
	{"wheel", func(slots int) contender { return &wheels{New[uint64](0, 0), make([]*Task[uint64], slots)} }},
	{"embedded", func(slots int) contender { return &embedded{New[uint64](0, 0), make([]Task[uint64], slots)} }},
	{"afterfunc", func(slots int) contender { return &timers{make([]*time.Timer, slots)} }},
}

// wheels allocates a task for each entry.
type wheels struct {
	wheel *Wheel[uint64]
	tasks []*Task[uint64]
}

func (c *wheels) add(slots []int, ends []timeout.Tick) {
	for i, slot := range slots {
		task := &Task[uint64]{Value: uint64(slot)}
		c.wheel.Add(task, ends[i])
		c.tasks[slot] = task
	}
}

func (c *wheels) cancel(slots []int) {
	for _, slot := range slots {
		if !c.wheel.Cancel(c.tasks[slot]) {
			panic("lost a task")
		}
	}
}

// embedded has its tasks already, inside of larger structs.
type embedded struct {
	wheel *Wheel[uint64]
	tasks []Task[uint64]
}

func (c *embedded) add(slots []int, ends []timeout.Tick) {
	for i, slot := range slots {
		c.wheel.Add(&c.tasks[slot], ends[i])
	}
}

func (c *embedded) cancel(slots []int) {
	for _, slot := range slots {
		if !c.wheel.Cancel(&c.tasks[slot]) {
			panic("lost a task")
		}
	}
}

// timers are the runtime's.
type timers struct{ timers []*time.Timer }

// add sets each an hour ahead, so that none fires during a measurement.
func (c *timers) add(slots []int, ends []timeout.Tick) {
	for i, slot := range slots {
		c.timers[slot] = time.AfterFunc(time.Hour+time.Duration(ends[i])*100*time.Millisecond, func() { panic(slot) })
	}
}

func (c *timers) cancel(slots []int) {
	for _, slot := range slots {
		if !c.timers[slot].Stop() {
			panic("lost a timer")
		}
	}
}

type workload struct {
	name  string
	ahead func(*rand.Rand) timeout.Tick
}

var workloads = []workload{
	{"uniform", func(r *rand.Rand) timeout.Tick { return 10 + timeout.Tick(r.Uint64N(horizon)) }},
	{"same", func(*rand.Rand) timeout.Tick { return horizon / 10 }},
}

// BenchmarkPair cancels and adds in rounds at a million pending and reports each for itself. The
// cancelled timers were added at any time before.
func BenchmarkPair(b *testing.B) {
	for _, load := range workloads {
		for _, c := range contenders {
			b.Run(load.name+"/"+c.name, func(b *testing.B) {
				r := rand.New(rand.NewPCG(1, 2))
				set, slots, ends := c.make(million), make([]int, million), make([]timeout.Tick, million)
				for i := range slots {
					slots[i], ends[i] = i, load.ahead(r)
				}
				set.add(slots, ends)
				pair := func(at int) (cancelling, adding time.Duration) {
					some := slots[at : at+batch]
					start := time.Now()
					set.cancel(some)
					gone := time.Now()
					set.add(some, ends[at:at+batch])
					return gone.Sub(start), time.Since(gone)
				}
				// Two rounds through all of them scatter neighbours in memory.
				for range 2 {
					r.Shuffle(million, func(i, k int) { slots[i], slots[k] = slots[k], slots[i] })
					for at := 0; at < million; at += batch {
						pair(at)
					}
				}
				r.Shuffle(million, func(i, k int) { slots[i], slots[k] = slots[k], slots[i] })
				runtime.GC()
				var adding, cancelling []float64
				at := 0
				b.ReportAllocs()
				for b.Loop() {
					c, a := pair(at)
					cancelling, adding = append(cancelling, float64(c.Nanoseconds())/batch), append(adding, float64(a.Nanoseconds())/batch)
					at = (at + batch) % million
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(median(adding), "ns/add")
				b.ReportMetric(median(cancelling), "ns/cancel")
			})
		}
	}
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

// BenchmarkShort is the usual life of a request: added, and cancelled soon after, among others that
// stay.
func BenchmarkShort(b *testing.B) {
	for _, pending := range []int{0, 10_000, million} {
		b.Run(fmt.Sprintf("pending=%d", pending), func(b *testing.B) {
			w := fill(pending, 0, workloads[0].ahead)
			var open [64]Task[int]
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				task := &open[n%64]
				w.Cancel(task)
				w.Add(task, w.Now()+600)
				n++
			}
		})
	}
}

// BenchmarkSparse adds and cancels a task that has its bucket for itself: the price of the delay queue is included.
func BenchmarkSparse(b *testing.B) {
	w := fill(100, 0, func(r *rand.Rand) timeout.Tick { return 1 + timeout.Tick(r.Uint64N(horizon)) })
	var task Task[int]
	end := timeout.Tick(1)
	b.ReportAllocs()
	for b.Loop() {
		w.Add(&task, end)
		w.Cancel(&task)
		end = end%horizon + 7
	}
}

// fill returns a wheel with tasks that were allocated in an order unlike that of their ends.
func fill(tasks, size int, ahead func(*rand.Rand) timeout.Tick) *Wheel[int] {
	r := rand.New(rand.NewPCG(1, 2))
	w := New[int](0, size)
	for i := range tasks {
		w.Add(&Task[int]{Value: i}, ahead(r))
	}
	return w
}

// BenchmarkOneTick lets a million tasks end at one tick.
func BenchmarkOneTick(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		w := fill(million, 0, func(*rand.Rand) timeout.Tick { return horizon / 10 })
		runtime.GC()
		b.StartTimer()
		w.Advance(horizon)
		for w.Pop() != nil {
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*million), "ns/expired")
}

// BenchmarkIdleTick advances over ticks at which nothing ends, with the calls of a wheel's owner.
func BenchmarkIdleTick(b *testing.B) {
	for _, pending := range []int{0, million} {
		b.Run(fmt.Sprintf("pending=%d", pending), func(b *testing.B) {
			w := fill(pending, 0, func(r *rand.Rand) timeout.Tick { return 1<<62 + timeout.Tick(r.Uint64N(horizon)) })
			b.ReportAllocs()
			for b.Loop() {
				w.Advance(w.Now() + 1)
				if _, ok := w.Next(); w.Pop() != nil || ok != (pending > 0) {
					b.Fatal("not idle")
				}
			}
		})
	}
}
