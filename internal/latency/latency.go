// Package latency counts durations since the process began, for the metrics.
//
//	h := latency.New()
//	h.Record(time.Since(start), 1)
//	d := h.Read() // d.Count, d.Sum, d.Buckets
//
// A [Histogram] is a packed HdrHistogram: a thousand participants have one each, and most of
// them record few different durations.
package latency

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/txmgr/txmgr/txn/admin"
)

// From a microsecond to an hour, to two significant digits, in nanoseconds.
const (
	finest      = time.Microsecond
	longest     = time.Hour
	significant = 2
)

// Bounds are the upper bounds of the buckets that are read, in seconds.
var Bounds = [...]float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}

// Histogram counts durations. It is safe for concurrent use.
type Histogram struct {
	mu  sync.Mutex // guards the rest
	hdr *hdrhistogram.PackedHistogram
	sum time.Duration
}

// New makes an empty histogram.
func New() *Histogram {
	return &Histogram{hdr: hdrhistogram.NewPacked(int64(finest), int64(longest), significant)}
}

// Record adds a duration n times. A negative one counts as zero, one above an hour as an
// hour.
func (h *Histogram) Record(d time.Duration, n int) {
	d = min(max(d, 0), longest)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hdr.RecordValues(int64(d), int64(n)) == nil { // an error: 2^63 durations, or n is negative
		h.sum += d * time.Duration(n)
	}
}

// Read returns what was recorded so far, with the buckets of [Bounds], to within 0.8 % of
// each bound.
func (h *Histogram) Read() admin.DurationHistogram {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := admin.DurationHistogram{Count: uint64(h.hdr.TotalCount()), Sum: h.sum.Seconds(), Buckets: make(map[float64]uint64, len(Bounds))}
	i, seen := 0, uint64(0)
	for value, n := range h.hdr.ForEachBucket {
		for ; i < len(Bounds) && time.Duration(value).Seconds() > Bounds[i]; i++ {
			r.Buckets[Bounds[i]] = seen
		}
		seen += uint64(n)
	}
	for ; i < len(Bounds); i++ {
		r.Buckets[Bounds[i]] = seen
	}
	return r
}
