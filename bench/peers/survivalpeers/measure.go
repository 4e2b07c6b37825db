package survivalpeers

import (
	"math/rand/v2"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/txmgr/txmgr/timeout/survival"
)

// Span is the largest timeout of the uniform workload in ticks: ten minutes.
const Span = 6000

// Workload defines how far ahead the ends of entries lie.
type Workload struct {
	Name  string
	Ahead func(r *rand.Rand) survival.Tick
}

// Workloads are timeouts spread evenly over ten minutes, and one minute for all entries.
var Workloads = []Workload{
	{"uniform", func(r *rand.Rand) survival.Tick { return 1 + survival.Tick(r.Uint64N(Span)) }},
	{"same", func(*rand.Rand) survival.Tick { return Span / 10 }},
}

// Load is a contender with a number of pending entries.
type Load[H any] struct {
	Timers Timers[H]

	workload Workload
	rand     *rand.Rand
	held     []H
	ids      []uint64
	ends     []survival.Tick
	scratch  []H
	last     uint64
}

// NewLoad returns a contender without entries. Each round adds or cancels round entries.
func NewLoad[H any](timers Timers[H], w Workload, pending, round int) *Load[H] {
	return &Load[H]{
		Timers: timers, workload: w, rand: rand.New(rand.NewPCG(1, 2)),
		held: make([]H, 0, pending+round),
		ids:  make([]uint64, round), ends: make([]survival.Tick, round), scratch: make([]H, round),
	}
}

// Fill adds pending entries, then adds and cancels churn more, so that consecutive entries are
// scattered in memory as after some hours of work.
func (l *Load[H]) Fill(pending, churn int) {
	for range pending / len(l.ids) {
		l.AddRound()
	}
	for range churn / len(l.ids) {
		l.AddRound()
		l.CancelRound()
	}
}

// AddRound adds a round of entries and returns the CPU time that the contender took.
func (l *Load[H]) AddRound() time.Duration {
	for n := range l.ids {
		l.last++
		l.ids[n] = l.last
		l.ends[n] = l.workload.Ahead(l.rand)
	}
	took := threadCPU(func() { l.Timers.Add(l.ids, l.ends, l.scratch) })
	l.held = append(l.held, l.scratch...)
	return took
}

// CancelRound cancels a round of entries drawn at random and returns the CPU time that the contender took.
func (l *Load[H]) CancelRound() time.Duration {
	for n := range l.scratch {
		k, last := l.rand.IntN(len(l.held)), len(l.held)-1
		l.scratch[n] = l.held[k]
		l.held[k] = l.held[last]
		l.held = l.held[:last]
	}
	cancelled := 0
	took := threadCPU(func() { cancelled = l.Timers.Cancel(l.scratch) })
	if cancelled != len(l.scratch) {
		panic("a pending entry could not be cancelled")
	}
	return took
}

// Drain expires everything that a contender holds, tick by tick, in batches, and returns how many
// entries ended, the CPU time of all steps and that of the longest.
func Drain[H any](timers Virtual[H], batch int) (ended int, total, longest time.Duration) {
	buf := make([]uint64, batch)
	for tick := range survival.Tick(Span + 1) {
		for n := batch; n == batch; {
			took := threadCPU(func() { n = timers.Expire(tick, buf) })
			ended += n
			total += took
			longest = max(longest, took)
		}
	}
	return ended, total, longest
}

// Collect returns the live heap in bytes and the CPU time of one collection, the cheapest of five.
func Collect() (heap int64, gc time.Duration) {
	runtime.GC()
	gc = time.Hour
	for range 5 {
		before := ProcessCPU()
		runtime.GC()
		gc = min(gc, ProcessCPU()-before)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc), gc
}

// CancelAll cancels everything that is pending.
func (l *Load[H]) CancelAll() {
	l.Timers.Cancel(l.held)
	l.held = l.held[:0]
}

// ProcessCPU returns the CPU time that this process has taken.
func ProcessCPU() time.Duration { return clock(unix.CLOCK_PROCESS_CPUTIME_ID) }

// threadCPU returns the CPU time that do takes on its thread. Unlike wall-clock time it does not
// include other processes.
func threadCPU(do func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := clock(unix.CLOCK_THREAD_CPUTIME_ID)
	do()
	return clock(unix.CLOCK_THREAD_CPUTIME_ID) - start
}

func clock(id int32) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}
