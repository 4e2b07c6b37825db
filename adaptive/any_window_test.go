package adaptive_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/txmgr/txmgr/adaptive"
	"github.com/txmgr/txmgr/adaptive/costa"
)

// anyWindow is a random window, consistent or not.
func anyWindow(limit int) *rapid.Generator[*adaptive.Window] {
	some := rapid.OneOf(rapid.Int64Range(0, 1000), rapid.SampledFrom([]int64{-1, math.MinInt64, math.MaxInt64, 0}))
	times := rapid.Custom(func(t *rapid.T) time.Duration {
		return time.Duration(rapid.OneOf(rapid.Int64Range(0, int64(20*time.Second)), some).Draw(t, "time"))
	})
	histograms := rapid.Custom(func(t *rapid.T) *adaptive.Histogram {
		if rapid.IntRange(0, 9).Draw(t, "nil") == 0 {
			return nil
		}
		h := new(adaptive.Histogram)
		h.RecordN(times.Draw(t, "took"), uint32(some.Draw(t, "n")))
		return h
	})
	return rapid.Custom(func(t *rapid.T) *adaptive.Window {
		start := times.Draw(t, "start")
		w := &adaptive.Window{
			Start: start, End: start + times.Draw(t, "length"),
			Limit:   limit,
			Arrived: uint64(some.Draw(t, "arrived")), Completed: uint64(some.Draw(t, "completed")),
			BusyTime: times.Draw(t, "busy"), QueueTime: times.Draw(t, "queue"),
			BusyMax: int(some.Draw(t, "most busy")), QueueMax: int(some.Draw(t, "longest")), QueueLen: int(some.Draw(t, "queued")),
			BoundTime: times.Draw(t, "bound"), BoundCompleted: uint64(some.Draw(t, "completed meanwhile")),
			Service: histograms.Draw(t, "service"), Sojourn: histograms.Draw(t, "sojourn"),
			CPU: rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, 0.5, 1, 2}).Draw(t, "cpu"),
		}
		if rapid.IntRange(0, 9).Draw(t, "other limit") == 0 {
			w.Limit = int(some.Draw(t, "limit"))
		}
		if rapid.IntRange(0, 9).Draw(t, "backwards") == 0 {
			w.Start, w.End = w.End, w.Start
		}
		return w
	})
}

// TestAnyWindows: for any windows the limit is in the allowed range,
// there is a reason for every change, and another optimizer of the same kind decides the same.
// Invariants 7 and 8.
func TestAnyWindows(t *testing.T) {
	kinds := map[string]func(t *rapid.T) adaptive.Optimizer{
		"Knee": func(t *rapid.T) adaptive.Optimizer {
			o, err := adaptive.NewKnee(adaptive.Knee{Min: 2, Max: 50, ProbeAfter: time.Second, MaxCPU: 0.9})
			if err != nil {
				t.Fatal(err)
			}
			return o
		},
	}
	for _, strict := range []bool{false, true} {
		c := costa.Config{Min: 2, Max: 50, Strict: strict}
		for algorithm, make := range map[string]func() (adaptive.Optimizer, error){
			"T":   func() (adaptive.Optimizer, error) { return costa.NewThroughput(costa.Throughput{Config: c}) },
			"M":   func() (adaptive.Optimizer, error) { return costa.NewMeanLatency(costa.MeanLatency{Config: c}) },
			"99P": func() (adaptive.Optimizer, error) { return costa.NewP99Latency(costa.P99Latency{Config: c}) },
		} {
			kinds[fmt.Sprintf("%s, strict %v", algorithm, strict)] = func(t *rapid.T) adaptive.Optimizer {
				o, err := make()
				if err != nil {
					t.Fatal(err)
				}
				return o
			}
		}
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				a, b := kind(t), kind(t)
				limit := rapid.IntRange(2, 50).Draw(t, "start")
				for i := range rapid.IntRange(1, 60).Draw(t, "windows") {
					w := anyWindow(limit).Draw(t, "window")
					was, length := w.Limit, w.Length()
					before := *w
					d, other := a.Observe(w), b.Observe(w)
					if d != other {
						t.Fatalf("window %d: %+v, and the same windows again: %+v", i, d, other)
					}
					if d.Limit < 2 || d.Limit > 50 {
						t.Fatalf("window %d: %+v", i, d)
					}
					if was >= 2 && was <= 50 && d.Limit != was && (d.Why == "" || length <= 0) {
						t.Fatalf("window %d, of %v: from %d to %+v", i, length, was, d)
					}
					before.CPU, w.CPU = 0, 0 // NaN is not equal to itself
					if before != *w {
						t.Fatalf("window %d was changed", i)
					}
					limit = d.Limit
				}
			})
		})
	}
}
