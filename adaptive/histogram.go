package adaptive

import (
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The resolution of a histogram: durations from a microsecond to an hour, to two
// significant digits. Its values are nanoseconds.
const (
	finest      = time.Microsecond
	longest     = time.Hour
	significant = 2
)

// Histogram counts durations in an HdrHistogram: in buckets of less than 0.8 % of
// their value, from a microsecond to an hour; a duration outside goes into the nearest
// bucket. The zero value is empty, and so is nil. It takes 28 KB with the first
// duration, must not be copied, and is not safe for concurrent use.
//
// Beside the buckets it keeps the sum and the sum of squares, which are exact.
type Histogram struct {
	_       noCopy
	hdr     *hdrhistogram.Histogram       // nil until something is recorded
	sum     uint64                        // nanoseconds
	squares float64                       // of nanoseconds
	packed  *hdrhistogram.PackedHistogram // for SumLog: buckets that are not empty
}

// noCopy makes go vet report copies: two would share their buckets.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// Record adds a duration. A negative one, of a clock that was set back, counts as
// zero; one above an hour, as an hour.
func (h *Histogram) Record(d time.Duration) { h.RecordN(d, 1) }

// RecordN adds the same duration n times.
func (h *Histogram) RecordN(d time.Duration, n uint32) {
	if n == 0 {
		return
	}
	if h.hdr == nil {
		h.hdr = newHDR()
	}
	d = min(max(d, 0), longest)
	if h.hdr.RecordValues(int64(d), int64(n)) != nil {
		return // 2^63 durations are recorded
	}
	h.sum += uint64(n) * uint64(d)
	h.squares += float64(n) * float64(d) * float64(d)
}

func newHDR() *hdrhistogram.Histogram {
	return hdrhistogram.New(int64(finest), int64(longest), significant)
}

// Count is the number of durations recorded.
func (h *Histogram) Count() uint64 {
	if h == nil || h.hdr == nil {
		return 0
	}
	return uint64(h.hdr.TotalCount())
}

// Sum is the sum of the durations recorded.
func (h *Histogram) Sum() time.Duration {
	if h == nil {
		return 0
	}
	return time.Duration(h.sum)
}

// Mean is the exact mean, 0 if nothing was recorded.
func (h *Histogram) Mean() time.Duration {
	if h.Count() == 0 {
		return 0
	}
	return time.Duration(h.sum / h.Count())
}

// Quantile is the duration that the part q of all recorded ones, from 0 to 1, does
// not exceed: 0.99 gives the 99th percentile. As everywhere in HdrHistogram it is the
// longest duration of its bucket. It is 0 if nothing was recorded or q is not a
// number; a q outside means the nearer end.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.Count() == 0 || math.IsNaN(q) {
		return 0
	}
	return time.Duration(h.hdr.ValueAtPercentile(100 * q))
}

// SumLog is the sum of the natural logarithms of the recorded durations in seconds,
// to the resolution of the buckets: each counts as the shortest duration of its bucket, and
// one shorter than a microsecond as a microsecond.
func (h *Histogram) SumLog() float64 {
	if h.Count() == 0 {
		return 0
	}
	if h.packed == nil {
		h.packed = hdrhistogram.NewPacked(int64(finest), int64(longest), significant)
	}
	h.packed.Reset()
	h.packed.MergeFrom(h.hdr)
	sum := 0.0
	for value, n := range h.packed.ForEachBucket {
		sum += float64(n) * math.Log(max(time.Duration(value), finest).Seconds())
	}
	return sum
}

// CV2 is the squared coefficient of variation, the variance in units of the
// squared mean: 0 for constant durations, 1 for exponential ones. With less than
// two durations it is not known, and 1 is returned.
func (h *Histogram) CV2() float64 {
	if h.Count() < 2 {
		return 1
	}
	count := float64(h.Count())
	mean := float64(h.sum) / count
	return max(0, ratio(h.squares/count, mean*mean)-1)
}

// Add adds all durations of another histogram; nil has none.
func (h *Histogram) Add(other *Histogram) {
	if other.Count() == 0 {
		return
	}
	if h.hdr == nil {
		h.hdr = newHDR()
	}
	h.hdr.Merge(other.hdr)
	h.sum += other.sum
	h.squares += other.squares
}

// HDR returns a copy of the buckets, for the writers and reports of package hdrhistogram.
// Its values are nanoseconds.
func (h *Histogram) HDR() *hdrhistogram.Histogram {
	if h.Count() == 0 {
		return newHDR()
	}
	return h.hdr.Clone()
}

// Reset removes all durations, and keeps the memory.
func (h *Histogram) Reset() {
	if h.hdr != nil {
		h.hdr.Reset()
	}
	h.sum, h.squares = 0, 0
}
