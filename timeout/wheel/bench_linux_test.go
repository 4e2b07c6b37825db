package wheel

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/txmgr/txmgr/timeout"
)

// BenchmarkExpire lets a million tasks end and reports the longest tick: Advance, and Pop until
// nothing is due. It is processor time, not wall-clock time: time slices of other programs do not
// count.
func BenchmarkExpire(b *testing.B) {
	for _, load := range []struct {
		name  string
		ahead func(*rand.Rand) timeout.Tick
	}{
		{"uniform", func(r *rand.Rand) timeout.Tick { return 1 + timeout.Tick(r.Uint64N(horizon)) }},
		{"hour", func(r *rand.Rand) timeout.Tick { return 1 + timeout.Tick(r.Uint64N(6*horizon)) }},
		{"day", func(r *rand.Rand) timeout.Tick { return 1 + timeout.Tick(r.Uint64N(144*horizon)) }},
	} {
		for _, size := range []int{16, DefaultSize, 256, 8192} {
			b.Run(fmt.Sprintf("%s/size=%d", load.name, size), func(b *testing.B) {
				var total time.Duration
				var longest time.Duration
				for b.Loop() {
					w := fill(million, size, load.ahead)
					runtime.GC()
					took, tick := drain(w)
					total += took
					longest = max(longest, tick)
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(total.Nanoseconds())/float64(b.N*million), "ns/expired")
				b.ReportMetric(float64(longest.Microseconds()), "longest-µs")
			})
		}
	}
}

// drain lets everything end and returns the time of all ticks and of the longest.
func drain(w *Wheel[int]) (total, longest time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for w.Len() > 0 {
		start := threadTime()
		w.Advance(w.Now() + 1)
		for w.Pop() != nil {
		}
		took := threadTime() - start
		total += took
		longest = max(longest, took)
	}
	return total, longest
}

// threadTime is the time that the thread has had of a processor. Getrusage knows it too, but in steps of milliseconds.
func threadTime() time.Duration {
	const clock = 3 // CLOCK_THREAD_CPUTIME_ID
	var ts syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		panic(errno)
	}
	return time.Duration(ts.Nano())
}
