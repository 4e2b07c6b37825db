package adaptive

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func durations() *rapid.Generator[time.Duration] {
	return rapid.Custom(func(t *rapid.T) time.Duration {
		return time.Duration(math.Exp(rapid.Float64Range(0, math.Log(float64(longest))).Draw(t, "ln")))
	})
}

func TestBucketsHoldWhatTheySay(t *testing.T) {
	last := -1
	for us := uint64(0); us <= uint64(longest/time.Microsecond); us += 1 + us/1000 {
		d := time.Duration(us) * time.Microsecond
		b := bucketOf(d)
		if b < last || b >= buckets {
			t.Fatalf("bucket %d of %v follows %d", b, d, last)
		}
		last = b
		off := math.Abs(middleOf(b) - float64(d))
		if off > float64(time.Microsecond) && off > 0.008*float64(d) {
			t.Fatalf("%v is in a bucket around %v", d, time.Duration(middleOf(b)))
		}
	}
	if got := bucketOf(longest); got != last {
		t.Errorf("an hour is in bucket %d, the last one used is %d", got, last)
	}
}

// TestHistogramAgainstAList compares a histogram with the sorted list of what went
// into it.
func TestHistogramAgainstAList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(durations(), 1, 200).Draw(t, "durations")
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		var h Histogram
		var sum time.Duration
		logs := 0.0
		for _, d := range list {
			h.Record(d)
			sum += d
			logs += math.Log(max(d, time.Microsecond/2).Seconds())
		}
		slices.Sort(list)
		want := list[max(0, int(math.Ceil(q*float64(len(list))))-1)]
		if got := h.Quantile(q); math.Abs(float64(got-want)) > max(0.008*float64(want), float64(time.Microsecond)) {
			t.Errorf("quantile %v is %v, not %v", q, got, want)
		}
		if h.Count() != uint64(len(list)) || h.Sum() != sum || h.Mean() != sum/time.Duration(len(list)) {
			t.Errorf("count %d, sum %v, mean %v of %v", h.Count(), h.Sum(), h.Mean(), list)
		}
		if list[0] > time.Millisecond {
			if got := h.SumLog(); math.Abs(got-logs) > 0.008*float64(len(list)) {
				t.Errorf("sum of logarithms %v, not %v", got, logs)
			}
		}
	})
}

// TestDifferenceIsWhatCameBetween also when counters wrap.
func TestDifferenceIsWhatCameBetween(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var old, recent Histogram
		for _, d := range rapid.SliceOf(durations()).Draw(t, "before") {
			old.Record(d)
		}
		for i := range old.counts {
			old.counts[i] += math.MaxUint32 - 3
		}
		all := old
		for _, d := range rapid.SliceOf(durations()).Draw(t, "after") {
			recent.Record(d)
			all.Record(d)
		}
		all.Sub(&old)
		if all != recent {
			t.Errorf("%d durations of %v, not %d of %v", all.Count(), all.Sum(), recent.Count(), recent.Sum())
		}
	})
}

func TestSpread(t *testing.T) {
	var same, two Histogram
	same.RecordN(20*time.Millisecond, 100)
	if got := same.CV2(); got > 0.001 {
		t.Errorf("the spread of equal durations is %v", got)
	}
	two.RecordN(10*time.Millisecond, 50) // mean 20, standard deviation 10
	two.RecordN(30*time.Millisecond, 50)
	if got := two.CV2(); math.Abs(got-0.25) > 0.01 {
		t.Errorf("the squared coefficient of variation is %v, not 0.25", got)
	}
}

func TestHistogramOfNothing(t *testing.T) {
	var zero Histogram
	zero.Add(nil)
	zero.Sub(nil)
	for name, h := range map[string]*Histogram{"zero": &zero, "nil": nil} {
		if h.Count() != 0 || h.Sum() != 0 || h.Mean() != 0 || h.Quantile(0.5) != 0 || h.SumLog() != 0 || h.CV2() != 1 {
			t.Errorf("%s says something", name)
		}
	}
}

func TestHistogramOfNonsense(t *testing.T) {
	var h Histogram
	h.Record(-time.Hour)
	h.Record(math.MinInt64)
	h.Record(math.MaxInt64)
	if h.Count() != 3 || h.Sum() != longest {
		t.Errorf("%d durations of %v", h.Count(), h.Sum())
	}
	if got := h.Quantile(math.NaN()); got != 0 {
		t.Errorf("quantile NaN is %v", got)
	}
	if low, high := h.Quantile(math.Inf(-1)), h.Quantile(math.Inf(1)); low > time.Microsecond || high < longest-longest/100 {
		t.Errorf("quantiles outside are %v and %v", low, high)
	}
	h.Reset()
	if h.Count() != 0 {
		t.Error("reset forgot nothing")
	}
}
