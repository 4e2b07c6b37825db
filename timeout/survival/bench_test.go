package survival

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
)

const (
	million = 1_000_000
	span    = 6000 // ticks: timeouts of up to ten minutes at an interval of 100 ms
	round   = million / 20
	batch   = 4096
	day     = 864_000
)

// timeouts is how far ahead the ends of a workload lie.
type timeouts struct {
	name  string
	ahead func(r *rand.Rand) Tick
}

var workloads = []timeouts{
	{"uniform", func(r *rand.Rand) Tick { return 1 + Tick(r.Uint64N(span)) }},
	{"same", func(*rand.Rand) Tick { return span / 10 }},
	{"far", func(r *rand.Rand) Tick { return 1 + Tick(r.Uint64N(day)) }},
}

// load is a table with a number of pending transactions whose places in memory are scattered by a churn.
type load struct {
	table *Table
	rand  *rand.Rand
	ahead func(*rand.Rand) Tick
	held  []entryRef
	id    uint64
}

func newLoad(w timeouts, pending, churn int) *load {
	l := &load{table: NewTable(0), rand: rand.New(rand.NewPCG(1, 2)), ahead: w.ahead}
	l.held = make([]entryRef, 0, pending+round)
	for range pending {
		l.add()
	}
	for range churn {
		k := l.rand.IntN(len(l.held))
		e := l.held[k]
		l.table.Cancel(e.id, e.ref)
		l.held[k] = l.held[len(l.held)-1]
		l.held = l.held[:len(l.held)-1]
		l.add()
	}
	return l
}

func (l *load) add() {
	l.id++
	l.held = append(l.held, entryRef{l.id, l.table.Add(l.id, l.table.Now()+l.ahead(l.rand))})
}

// BenchmarkPair adds and cancels in rounds at a million pending and reports each for itself. The
// transactions to cancel are drawn beforehand: the owner of a transaction has its id and Ref.
func BenchmarkPair(b *testing.B) {
	for _, w := range workloads {
		b.Run(w.name, func(b *testing.B) {
			l := newLoad(w, million, 4*million)
			ends := make([]Tick, round)
			gone := make([]entryRef, round)
			var adding, cancelling time.Duration
			b.ReportAllocs()
			for b.Loop() {
				for n := range ends {
					ends[n] = l.table.Now() + l.ahead(l.rand)
				}
				start := time.Now()
				for _, end := range ends {
					l.id++
					l.held = append(l.held, entryRef{l.id, l.table.Add(l.id, end)})
				}
				adding += time.Since(start)
				for n := range gone {
					k := l.rand.IntN(len(l.held))
					gone[n] = l.held[k]
					l.held[k] = l.held[len(l.held)-1]
					l.held = l.held[:len(l.held)-1]
				}
				start = time.Now()
				for _, e := range gone {
					l.table.Cancel(e.id, e.ref)
				}
				cancelling += time.Since(start)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(adding.Nanoseconds())/float64(b.N*round), "ns/add")
			b.ReportMetric(float64(cancelling.Nanoseconds())/float64(b.N*round), "ns/cancel")
		})
	}
}

// BenchmarkShort is the usual life of a transaction: added, and cancelled soon after, among others
// that stay.
func BenchmarkShort(b *testing.B) {
	for _, pending := range []int{0, 10_000, million} {
		b.Run(fmt.Sprintf("pending=%d", pending), func(b *testing.B) {
			l := newLoad(workloads[0], pending, pending)
			var open [64]entryRef
			b.ReportAllocs()
			for b.Loop() {
				l.id++
				e := &open[l.id%64]
				l.table.Cancel(e.id, e.ref)
				*e = entryRef{l.id, l.table.Add(l.id, l.table.Now()+600)}
			}
		})
	}
}

// BenchmarkExpire lets a million transactions end, in batches, and reports the longest step. Of
// several runs the quietest counts: time slices of other programs do not.
func BenchmarkExpire(b *testing.B) {
	for _, w := range workloads {
		for _, churn := range []int{0, million} {
			b.Run(fmt.Sprintf("%s/churn=%d", w.name, churn), func(b *testing.B) {
				stride := Tick(1)
				if w.name == "far" {
					stride = day
				}
				var total time.Duration
				longest := time.Hour
				for b.Loop() {
					l := newLoad(w, million, churn)
					runtime.GC()
					took, step := l.drain(stride)
					total += took
					longest = min(longest, step)
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(total.Nanoseconds())/float64(b.N*million), "ns/expired")
				b.ReportMetric(float64(longest.Microseconds()), "longest-µs")
			})
		}
	}
}

// drain lets everything end and returns the time of all steps and of the longest.
func (l *load) drain(stride Tick) (total, longest time.Duration) {
	buf := make([]uint64, batch)
	step := func(do func()) {
		start := time.Now()
		do()
		took := time.Since(start)
		total += took
		longest = max(longest, took)
	}
	for l.table.Len() > 0 {
		step(func() { l.table.Advance(l.table.Now() + stride) })
		for l.table.Due() {
			step(func() { l.table.Expire(buf) })
		}
	}
	return total, longest
}

// BenchmarkIdleTick advances over ticks at which nothing ends, with the calls of a coordinator.
func BenchmarkIdleTick(b *testing.B) {
	for _, pending := range []int{0, million} {
		b.Run(fmt.Sprintf("pending=%d", pending), func(b *testing.B) {
			l := newLoad(timeouts{ahead: func(r *rand.Rand) Tick { return 1<<62 + Tick(r.Uint64N(span)) }}, pending, 0)
			b.ReportAllocs()
			for b.Loop() {
				l.table.Advance(l.table.Now() + 1)
				if _, ok := l.table.Next(); l.table.Due() || ok != (pending > 0) {
					b.Fatal("not idle")
				}
			}
		})
	}
}
