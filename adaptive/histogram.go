package adaptive

import (
	"math"
	"math/bits"
	"time"
)

// The layout is HdrHistogram's for two significant digits, with a lowest value of
// a microsecond and a highest of an hour: below 256 µs one bucket a microsecond,
// above that 128 buckets an octave. An octave's buckets follow the last one's.
const (
	halfOctave = 7
	perOctave  = 1 << halfOctave
	longest    = time.Hour
	buckets    = (32-halfOctave)*perOctave + perOctave // an hour has 32 bits of microseconds
)

// bucketOf gives the bucket of a duration: of less than nothing the first one, of
// more than an hour an hour's.
func bucketOf(d time.Duration) int {
	us := uint64(min(max(d, 0), longest) / time.Microsecond)
	octave := max(bits.Len64(us)-halfOctave-1, 0)
	return octave<<halfOctave + int(us>>octave)
}

// middleOf gives the middle of a bucket, in nanoseconds.
func middleOf(bucket int) float64 {
	octave := max(bucket>>halfOctave-1, 0)
	return (float64(bucket-octave<<halfOctave) + 0.5) * float64(uint64(1000)<<octave)
}

// Histogram counts durations in buckets of less than 0.8 % of their value, from a
// microsecond to an hour; what is outside goes into the nearest bucket. The zero
// value is empty, and so is nil. It is 13 KB large, and not safe for concurrent
// use.
//
// Counters only add, and wrap: the difference of two readings is right as long as
// no bucket grew by 2^32 between them.
type Histogram struct {
	counts [buckets]uint32
	count  uint64
	sum    uint64 // nanoseconds; exact, unlike what the buckets say
}

// Record adds a duration. A negative one, of a clock that was set back, counts as
// nothing; one above an hour, as an hour.
func (h *Histogram) Record(d time.Duration) { h.RecordN(d, 1) }

// RecordN adds the same duration n times.
func (h *Histogram) RecordN(d time.Duration, n uint32) {
	d = min(max(d, 0), longest)
	h.counts[bucketOf(d)] += n
	h.count += uint64(n)
	h.sum += uint64(n) * uint64(d)
}

// Count is the number of durations recorded.
func (h *Histogram) Count() uint64 {
	if h == nil {
		return 0
	}
	return h.count
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
	return time.Duration(h.sum / h.count)
}

// Quantile is the duration that the part q of all recorded ones, from 0 to 1, does
// not exceed, to within half a bucket: 0.99 gives the 99th percentile. It is 0 if
// nothing was recorded or q is not a number; a q outside means the nearer end.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.Count() == 0 || math.IsNaN(q) {
		return 0
	}
	rank := uint64(math.Ceil(min(max(q, 0), 1) * float64(h.count)))
	var seen uint64
	for i, n := range &h.counts {
		if seen += uint64(n); n > 0 && seen >= rank {
			return time.Duration(middleOf(i))
		}
	}
	return longest // only if counters have wrapped
}

// SumLog is the sum of the natural logarithms of the recorded durations in
// seconds, as far as the buckets know them.
func (h *Histogram) SumLog() float64 {
	sum := 0.0
	h.each(func(ns, n float64) { sum += n * math.Log(ns/1e9) })
	return sum
}

// CV2 is the squared coefficient of variation, the variance in units of the
// squared mean: 0 for constant durations, 1 for exponential ones. Of less than
// two durations nothing is known, and the answer is 1.
func (h *Histogram) CV2() float64 {
	if h.Count() < 2 {
		return 1
	}
	var count, sum, squares float64
	h.each(func(ns, n float64) {
		count += n
		sum += n * ns
		squares += n * ns * ns
	})
	mean := ratio(sum, count)
	return max(0, ratio(ratio(squares, count), mean*mean)-1)
}

func (h *Histogram) each(visit func(ns, n float64)) {
	if h == nil {
		return
	}
	for i, n := range &h.counts {
		if n > 0 {
			visit(middleOf(i), float64(n))
		}
	}
}

// Add adds everything that another histogram has; nil has nothing.
func (h *Histogram) Add(other *Histogram) {
	if other == nil {
		return
	}
	for i, n := range &other.counts {
		h.counts[i] += n
	}
	h.count += other.count
	h.sum += other.sum
}

// Sub takes away what an older reading of the same histogram had; nil had nothing.
// What is left is what was recorded between the two.
func (h *Histogram) Sub(older *Histogram) {
	if older == nil {
		return
	}
	h.count = 0
	for i, n := range &older.counts {
		h.counts[i] -= n
		h.count += uint64(h.counts[i])
	}
	h.sum -= older.sum
}

// Reset forgets everything.
func (h *Histogram) Reset() { *h = Histogram{} }
