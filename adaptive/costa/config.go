package costa

import (
	"cmp"
	"fmt"
	"time"

	"github.com/txmgr/txmgr/adaptive"
)

// Throughput configures the optimizer that grows a pool as long as a step
// gains 10 % more completions per second. The zero value is usable.
type Throughput struct {
	Config
	// Threshold is by how much of its value throughput has to rise for a larger pool
	// to stay, and to fall for an earlier size to be looked up. Defaults to 0.10.
	Threshold float64
}

// MeanLatency configures the optimizer that tries a step up and a step down in
// turns, and keeps those which make the mean latency 5 % smaller. The zero value
// is usable.
type MeanLatency struct {
	Config
	// Threshold is by how much of its value latency has to fall for a step to be kept. Defaults to 0.05.
	Threshold float64
}

// P99Latency configures the optimizer that does as [MeanLatency] does, with the
// 99th percentile of the latencies. The zero value is usable.
type P99Latency struct {
	Config
	// Threshold is by how much of its value latency has to fall for a step to be kept. Defaults to 0.05.
	Threshold float64
}

// Config is what the three optimizers of the dissertation have in common.
type Config struct {
	// Period is the length of a window. Defaults to 10 s.
	Period time.Duration
	// Step is by how much the limit changes at once. Defaults to 10.
	Step int
	// Lock is for how many windows a direction is not tried again after a step in it has
	// failed. Defaults to 6.
	Lock int
	// Min and Max bound the limit. A step that would leave them is not
	// taken. Min defaults to 1; Max to 1024, or, with Strict, to MaxLimit, since the
	// dissertation has none.
	Min, Max int
	// KeepIdle leaves the limit alone when nothing has completed in a window, instead
	// of going back to Min. Strict ignores it. Defaults to false.
	KeepIdle bool
	// Strict implements the algorithms as published, mistakes included: see the package
	// documentation. Defaults to false.
	Strict bool
}

func (s Config) withDefaults(threshold *float64, usual float64) (Config, error) {
	limit := adaptive.DefaultMax
	if s.Strict {
		limit = adaptive.MaxLimit
	}
	s.Period = cmp.Or(s.Period, 10*time.Second)
	s.Step = cmp.Or(s.Step, 10)
	s.Lock = cmp.Or(s.Lock, 6)
	s.Min = cmp.Or(s.Min, 1)
	s.Max = cmp.Or(s.Max, limit)
	*threshold = cmp.Or(*threshold, usual)
	switch {
	case s.Step < 0 || s.Step > adaptive.MaxLimit:
		return s, fmt.Errorf("%w: a step of %d, which must be from 1 to %d", adaptive.ErrConfig, s.Step, adaptive.MaxLimit)
	case s.Lock < 0:
		return s, fmt.Errorf("%w: a lock of %d windows, which must not be negative", adaptive.ErrConfig, s.Lock)
	case !(*threshold > 0 && *threshold < 1):
		return s, fmt.Errorf("%w: a threshold of %v, which must be between 0 and 1", adaptive.ErrConfig, *threshold)
	}
	return s, adaptive.CheckOptimizer(s.Period, s.Min, s.Max)
}
