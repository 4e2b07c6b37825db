package recovery

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/txmgr/txmgr/adaptive"
	"github.com/txmgr/txmgr/adaptive/costa"
	"github.com/txmgr/txmgr/txn"
)

// OptimizerSpec selects what chooses the number of concurrent calls at a participant: an
// optimizer of package adaptive, or a fixed number. The zero OptimizerSpec is knee.
type OptimizerSpec struct {
	name string
	size int // if fixed
}

// The names of optimizers, as they are written in settings.
const (
	knee       = "knee"
	throughput = "throughput"
	mean       = "mean"
	p99        = "p99"
	fixedSize  = "fixed:"
	custom     = "custom" // Config.NewOptimizer
)

// maxFixed is the largest fixed number of concurrent calls.
const maxFixed = 4096

// OptimizerSyntax describes, for the operator, how an OptimizerSpec is written.
const OptimizerSyntax = knee + ", " + throughput + ", " + mean + ", " + p99 + ", or " + fixedSize + "N with N calls at once"

// ParseOptimizer reads an OptimizerSpec. It wraps [txn.ErrInvalid] if the text is none.
func ParseOptimizer(text string) (OptimizerSpec, error) {
	switch text {
	case knee:
		return OptimizerSpec{}, nil
	case throughput, mean, p99:
		return OptimizerSpec{name: text}, nil
	}
	if number, ok := strings.CutPrefix(text, fixedSize); ok {
		if n, err := strconv.Atoi(number); err == nil && 1 <= n && n <= maxFixed && strconv.Itoa(n) == number {
			return OptimizerSpec{name: fixedSize, size: n}, nil
		}
	}
	return OptimizerSpec{}, fmt.Errorf("%w: optimizer %q: want %s, from 1 to %d", txn.ErrInvalid, text, OptimizerSyntax, maxFixed)
}

// String returns the spec as [ParseOptimizer] reads it.
func (c OptimizerSpec) String() string {
	switch c.name {
	case "":
		return knee
	case fixedSize:
		return fixedSize + strconv.Itoa(c.size)
	}
	return c.name
}

// build makes the optimizer of a spec, with limits up to most. Those of the dissertation
// observe as often as knee does, and leave the limit alone when nothing completes: between
// two bursts of work that is nearly always.
func (c OptimizerSpec) build(most int) (o adaptive.Optimizer) {
	source := costa.Config{Period: optimizerPeriod, Max: most, KeepIdle: true}
	var err error
	switch c.name {
	case throughput:
		o, err = costa.NewThroughput(costa.Throughput{Config: source})
	case mean:
		o, err = costa.NewMeanLatency(costa.MeanLatency{Config: source})
	case p99:
		o, err = costa.NewP99Latency(costa.P99Latency{Config: source})
	case fixedSize:
		return adaptive.Fixed(c.size)
	default:
		o, err = adaptive.NewKnee(adaptive.Knee{Max: most, Period: optimizerPeriod, WorkerCost: workerCost})
	}
	if err != nil {
		return adaptive.Fixed(0) // unreachable: the limits are in the allowed range
	}
	return o
}

// optimizerFor returns the spec that applies to a participant.
func (r *Recovery) optimizerFor(participant string) OptimizerSpec {
	if r.cfg.OptimizerFor != nil {
		if c, ok := r.cfg.OptimizerFor(participant); ok {
			return c
		}
	}
	if r.cfg.NewOptimizer != nil {
		return OptimizerSpec{name: custom}
	}
	return r.cfg.OptimizerSpec
}

// newOptimizer makes the optimizer of a participant.
func (r *Recovery) newOptimizer(c OptimizerSpec) adaptive.Optimizer {
	if c.name == custom {
		if o := r.cfg.NewOptimizer(); o != nil {
			return o
		}
		c = OptimizerSpec{}
	}
	return c.build(r.cfg.MaxPerParticipant)
}
