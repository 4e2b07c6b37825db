package adaptive

import (
	"math/bits"
	"runtime"
	"sync/atomic"
	"time"
)

// recorder has the times of all tasks that ever ended. Workers add to shards, without
// a lock, and nothing is ever reset: who wants a window takes the difference of two
// readings, in which no task is lost and none counted twice.
type recorder struct {
	shards []shard
	worker *atomic.Uint32 // number of the last one
}

// shard is what some of the workers write to.
type shard struct {
	service, sojourn tally
	_                [64]byte // shards share no cache line
}

// tally is a [Histogram] that many goroutines can add to and read.
type tally struct {
	counts [buckets]atomic.Uint32
	sum    atomic.Uint64
}

// newRecorder has twice as many shards as goroutines run at once, so that two of
// them seldom meet.
func newRecorder() recorder {
	n := 1 << bits.Len(uint(2*runtime.GOMAXPROCS(0)-1))
	return recorder{make([]shard, n), new(atomic.Uint32)}
}

// shard gives a new worker the shard it writes to.
func (r recorder) shard() *shard {
	return &r.shards[int(r.worker.Add(1))&(len(r.shards)-1)]
}

func (t *tally) record(d time.Duration) {
	d = min(max(d, 0), longest)
	t.counts[bucketOf(d)].Add(1)
	t.sum.Add(uint64(d))
}

// read adds up all shards.
func (r recorder) read(service, sojourn *Histogram) {
	service.Reset()
	sojourn.Reset()
	for i := range r.shards {
		r.shards[i].service.addTo(service)
		r.shards[i].sojourn.addTo(sojourn)
	}
}

func (t *tally) addTo(h *Histogram) {
	for i := range t.counts {
		n := t.counts[i].Load()
		h.counts[i] += n
		h.count += uint64(n)
	}
	h.sum += t.sum.Load()
}
