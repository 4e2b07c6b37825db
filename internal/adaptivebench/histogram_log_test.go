package adaptivebench

import (
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// TestHistogramLogIsReadAgain: the reader of the library finds in a log the recorded values,
// with their times.
func TestHistogramLogIsReadAgain(t *testing.T) {
	began := time.Date(2026, 11, 24, 1, 2, 3, 0, time.UTC)
	tallies := []*tally{{from: 0, to: time.Second}, {from: time.Second, to: 3 * time.Second}}
	tallies[0].server.RecordN(10*time.Millisecond, 100)
	tallies[0].users.RecordN(12*time.Millisecond, 100)
	tallies[1].server.RecordN(30*time.Millisecond, 300)
	text, err := histogramLog(Task{App: "dbread", Load: FixedLoad, Users: 100, Contender: "knee"}, began, tallies)
	if err != nil {
		t.Fatal(err)
	}
	r := hdrhistogram.NewHistogramLogReader(strings.NewReader(text))
	for i, want := range []struct {
		tag      string
		n        int64
		ms       float64
		from, to time.Duration
	}{
		{"server", 100, 10, 0, time.Second},
		{"users", 100, 12, 0, time.Second},
		{"server", 300, 30, time.Second, 3 * time.Second},
		{"users", 0, 0, time.Second, 3 * time.Second},
	} {
		h, err := r.NextIntervalHistogram()
		if err != nil || h == nil {
			t.Fatalf("interval %d: %v, %v", i, h, err)
		}
		if h.Tag() != want.tag || h.TotalCount() != want.n {
			t.Errorf("interval %d: tag %q with %d values, want %+v", i, h.Tag(), h.TotalCount(), want)
		}
		if ms := float64(h.ValueAtPercentile(99)) / 1e6; ms < want.ms || ms > want.ms*1.008 {
			t.Errorf("interval %d: 99th percentile %v ms, want %v", i, ms, want.ms)
		}
		if from, to := h.StartTimeMs()-began.UnixMilli(), h.EndTimeMs()-began.UnixMilli(); from != want.from.Milliseconds() || to != want.to.Milliseconds() {
			t.Errorf("interval %d: from %d to %d ms, want %v to %v", i, from, to, want.from, want.to)
		}
	}
	if h, err := r.NextIntervalHistogram(); h != nil || err != nil {
		t.Errorf("after the end: %v, %v", h, err)
	}
}
