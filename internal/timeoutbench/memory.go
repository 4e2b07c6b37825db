package timeoutbench

import (
	"runtime"
	"time"
)

// flushAll flushes the contenders and collects their garbage.
func flushAll[H any](pools []*pendingSet[H]) {
	for _, p := range pools {
		p.flush()
	}
	runtime.GC()
}

// churnRounds is how often every entry is replaced, on the average, before memory counts as churned.
const churnRounds = 5

// measureMemory measures the memory of a load, and the cost of a collection because of it. The
// memory of ids and handles, which the owner keeps in any case, does not count.
func measureMemory[H any](fresh func(bool) Timers[H], l Load, size int, found Figures) error {
	p := newPendingSet[H](nil, l, size, roundOf(size), 0, 1)
	before := collect()
	p.timers = fresh(false)
	defer stop(p.timers)
	p.fill(size)
	p.flush()
	after := collect()
	found[Bytes] = float64(after.heap-before.heap) / float64(size)
	found[Collection] = microseconds(max(0, after.cpu-before.cpu))
	found[Pause] = microseconds(after.pause)
	for range churnRounds {
		p.churn(size)
		runtime.GC() // garbage does not count, but its memory would be counted
	}
	p.flush()
	found[BytesChurned] = float64(collect().heap-before.heap) / float64(size)
	return p.checkLost()
}

// collection is the cheapest of ten collections.
type collection struct {
	heap       int64
	cpu, pause time.Duration
}

func collect() collection {
	// A cleanup may release memory that only the next collection takes.
	runtime.GC()
	c := collection{cpu: time.Hour, pause: time.Hour}
	var m runtime.MemStats
	for range 10 {
		before := ProcessCPU()
		runtime.GC()
		c.cpu = min(c.cpu, ProcessCPU()-before)
		runtime.ReadMemStats(&m)
		c.pause = min(c.pause, time.Duration(m.PauseNs[(m.NumGC+255)%256]))
	}
	c.heap = int64(m.HeapAlloc)
	return c
}
