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

// TestBucketsHoldWhatTheySay: the value of a bucket is less than 0.8 % more than the values
// recorded in it, or a microsecond.
func TestBucketsHoldWhatTheySay(t *testing.T) {
	var h Histogram
	for us := uint64(0); us <= uint64(longest/time.Microsecond); us += 1 + us/1000 {
		d := time.Duration(us) * time.Microsecond
		h.Reset()
		h.Record(d)
		off := h.Quantile(0.5) - d
		if off < 0 || off > max(d/128, time.Microsecond) {
			t.Fatalf("%v is in a bucket that ends at %v", d, h.Quantile(0.5))
		}
	}
}

// TestHistogramAgainstAList compares a histogram with the sorted list of the recorded
// values.
func TestHistogramAgainstAList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(durations(), 1, 200).Draw(t, "durations")
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		var h Histogram
		var sum time.Duration
		var logs, squares float64
		for _, d := range list {
			h.Record(d)
			sum += d
			logs += math.Log(max(d, 1).Seconds())
			squares += d.Seconds() * d.Seconds()
		}
		slices.Sort(list)
		want := list[max(0, int(q*float64(len(list))+0.5)-1)] // the nearest rank
		if got := h.Quantile(q); math.Abs(float64(got-want)) > max(float64(want)/128, float64(time.Microsecond)) {
			t.Errorf("quantile %v is %v, not %v", q, got, want)
		}
		if h.Count() != uint64(len(list)) || h.Sum() != sum || h.Mean() != sum/time.Duration(len(list)) {
			t.Errorf("count %d, sum %v, mean %v of %v", h.Count(), h.Sum(), h.Mean(), list)
		}
		if got := h.SumLog(); list[0] > time.Millisecond && (got > logs+1e-9 || got < logs-0.008*float64(len(list))-1e-9) {
			t.Errorf("sum of logarithms %v, not %v", got, logs)
		}
		if n, mean := float64(len(list)), sum.Seconds()/float64(len(list)); n > 1 && mean > 0 {
			if got, want := h.CV2(), squares/n/mean/mean-1; math.Abs(got-max(0, want)) > 1e-6 {
				t.Errorf("squared coefficient of variation %v, not %v", got, want)
			}
		}
	})
}

// TestAddIsRecordingAgain: the sum of two histograms equals one histogram that
// recorded the durations of both.
func TestAddIsRecordingAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var one, other, both Histogram
		for _, h := range []*Histogram{&one, &other} {
			for _, d := range rapid.SliceOf(durations()).Draw(t, "durations") {
				h.Record(d)
				both.Record(d)
			}
		}
		one.Add(&other)
		if !one.HDR().Equals(both.HDR()) || one.Sum() != both.Sum() || one.SumLog() != both.SumLog() || math.Abs(one.CV2()-both.CV2()) > 1e-6 {
			t.Errorf("%d durations of %v, not %d of %v", one.Count(), one.Sum(), both.Count(), both.Sum())
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
	for name, h := range map[string]*Histogram{"zero": &zero, "nil": nil} {
		if h.Count() != 0 || h.Sum() != 0 || h.Mean() != 0 || h.Quantile(0.5) != 0 || h.SumLog() != 0 || h.CV2() != 1 {
			t.Errorf("%s says something", name)
		}
		if n := h.HDR().TotalCount(); n != 0 {
			t.Errorf("%s has %d", name, n)
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
