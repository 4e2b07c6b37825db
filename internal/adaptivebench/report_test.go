package adaptivebench

import (
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/adaptive"
)

func fixedOf(t *testing.T, n int) adaptive.Optimizer {
	t.Helper()
	o, start, err := Contender{Name: "x", Size: n}.Make(1)
	if err != nil || start != n {
		t.Fatalf("starts with %d: %v", start, err)
	}
	return o
}

// gauge makes each caller wait a moment, and keeps the largest number of concurrent ones.
type gauge struct{ now, most atomic.Int64 }

func newGauge() *gauge { return &gauge{} }

func (g *gauge) pass() {
	n := g.now.Add(1)
	for most := g.most.Load(); n > most && !g.most.CompareAndSwap(most, n); most = g.most.Load() {
	}
	<-time.After(5 * time.Millisecond)
	g.now.Add(-1)
}

func TestSizes(t *testing.T) {
	s := Sizes{1, []Resize{{Size: 11, at: 2 * time.Second}, {Size: 21, at: 3 * time.Second}, {Size: 5, at: 3 * time.Second}}}
	for _, c := range []struct {
		from, to time.Duration
		want     float64
	}{
		{0, 2 * time.Second, 1},
		{0, 4 * time.Second, (2*1 + 11 + 5) / 4.0},
		{2 * time.Second, 3 * time.Second, 11},
		{2500 * time.Millisecond, 3500 * time.Millisecond, 8},
		{10 * time.Second, 11 * time.Second, 5},
		{time.Second, time.Second, 0},
	} {
		if got := s.Mean(c.from, c.to); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("from %v to %v: %v, want %v", c.from, c.to, got, c.want)
		}
	}
	if s.Last() != 5 || (Sizes{Start: 7}).Last() != 7 {
		t.Error("the last size is wrong")
	}
}

func TestResultSumsUp(t *testing.T) {
	phases := []Phase{{"a", 2, 0.5}, {"b", 0, 0.5}}
	record := func(h *adaptive.Histogram, d time.Duration, n uint32) { h.RecordN(d, n) }
	tallies := []*tally{
		{from: 0, to: time.Second, phase: 0},
		{from: time.Second, to: 2 * time.Second, phase: 0},
		{from: 2 * time.Second, to: 4 * time.Second, phase: 1},
	}
	record(&tallies[0].server, 10*time.Millisecond, 100)
	record(&tallies[1].server, 30*time.Millisecond, 300)
	record(&tallies[1].users, 40*time.Millisecond, 300)
	r := resultOf(Task{Contender: "x"}, phases, tallies, Sizes{1, []Resize{{Size: 3, at: time.Second, Why: "because"}}}, 10, 500*time.Millisecond)
	if r.Answered != 400 || r.Rate != 100 || r.Mean != 25*time.Millisecond || r.Took != 4*time.Second || r.PerWindow != 50 || r.Last != 3 {
		t.Errorf("%+v", r)
	}
	if a, b := r.Parts[0], r.Parts[1]; a.Rate != 200 || a.Mean != 25*time.Millisecond || a.Size != 2 || b.Rate != 0 || b.Mean != 0 || b.P99 != 0 || b.Size != 3 {
		t.Errorf("parts: %+v", r.Parts)
	}
	if s := r.Samples[1]; s.At != 20 || s.Users != 2 || s.Rate != 300 || s.Mean != 30*time.Millisecond || math.Abs(s.UserP99.Seconds()-0.04) > 0.001 || s.Size != 3 {
		t.Errorf("second sample: %+v", s)
	}
	if diff := cmp.Diff([]float64{10}, []float64{r.Resizes[0].At}); diff != "" || r.Resizes[0].Why != "because" {
		t.Errorf("resizes: %+v", r.Resizes)
	}
}

func TestProcessors(t *testing.T) {
	got := parseCPUTimes("cpu  100 1 50 800 20 3 4 22 7 0\ncpu0 1 2 3\n")
	if diff := cmp.Diff(cpuTimes{1000, 820, 22}, got, cmp.AllowUnexported(cpuTimes{})); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"", "cpu 1 2", "cpu a b c d e f g h", "intr 1 2 3 4 5 6 7 8 9"} {
		if got := parseCPUTimes(bad); got != (cpuTimes{}) {
			t.Errorf("%q: %+v", bad, got)
		}
	}
}
