package adaptivesim

import (
	"time"

	"github.com/txmgr/txmgr/adaptive"
)

// Sample is a piece of a run, within one phase: a point of a picture.
type Sample struct {
	From, To  time.Duration
	Phase     int
	Completed uint64
	// Mean and P99 are of the time for which the completed tasks were present, zero without one.
	Mean, P99 time.Duration
}

// sampling is the piece under way.
type sampling struct {
	from    float64
	sojourn adaptive.Histogram
}

// planSample schedules the end of the n-th piece: by its number, so that no error adds up.
func (s *simulation) planSample(n int32) {
	if s.scenario.Sample > 0 {
		s.events.push(float64(n)*s.scenario.Sample.Seconds(), event{sampleEnds, n})
	}
}

// endSample keeps the piece that ends now, unless a phase has ended with it already.
func (s *simulation) endSample() {
	seen := &s.sample
	if s.scenario.Sample == 0 || s.now == seen.from {
		return
	}
	s.result.Samples = append(s.result.Samples, Sample{
		From: duration(seen.from), To: duration(s.now), Phase: s.phase,
		Completed: seen.sojourn.Count(), Mean: seen.sojourn.Mean(), P99: seen.sojourn.Quantile(0.99),
	})
	seen.from = s.now
	seen.sojourn.Reset()
}
