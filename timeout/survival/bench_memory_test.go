//go:build unix

package survival

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// BenchmarkMemory reports the bytes that a pending transaction takes, and what it adds to the garbage collector's work.
func BenchmarkMemory(b *testing.B) {
	for _, w := range workloads {
		for _, churn := range []int{0, 10 * million} {
			b.Run(fmt.Sprintf("%s/churn=%d", w.name, churn), func(b *testing.B) {
				for b.Loop() {
					l := newLoad(w, million, churn)
					l.held = nil
					with, gc := heapAfterGC()
					runtime.KeepAlive(l)
					l = nil
					without, idle := heapAfterGC()
					b.ReportMetric(float64(with-without)/million, "B/entry")
					b.ReportMetric(float64(max(0, gc-idle).Microseconds()), "GC-µs")
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// BenchmarkMemoryByAge replaces transactions that are among the oldest, as when they live about as long as their neighbours,
// and reports the bytes that a pending one takes.
func BenchmarkMemoryByAge(b *testing.B) {
	for _, oldest := range []int{million / 100, million / 10} {
		b.Run(fmt.Sprintf("oldest=%d", oldest), func(b *testing.B) {
			for b.Loop() {
				l := newLoad(workloads[1], million, 0)
				for n := range 5 * million {
					first, k := &l.held[n%million], (n+l.rand.IntN(oldest))%million
					l.table.Cancel(l.held[k].id, l.held[k].ref)
					l.held[k] = *first
					l.id++
					*first = entryRef{l.id, l.table.Add(l.id, l.table.Now()+l.ahead(l.rand))}
				}
				l.held = nil
				with, _ := heapAfterGC()
				runtime.KeepAlive(l)
				l = nil
				without, _ := heapAfterGC()
				b.ReportMetric(float64(with-without)/million, "B/entry")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// heapAfterGC returns the live heap and the CPU time of one collection, the cheapest of five. The CPU time is that of the
// process: the runtime's own account takes the time on the wall for it, which a busy machine makes longer.
func heapAfterGC() (heap uint64, gc time.Duration) {
	cpu := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			panic(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	runtime.GC()
	gc = time.Hour
	for range 5 {
		before := cpu()
		runtime.GC()
		gc = min(gc, cpu()-before)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc, gc
}
