package recovery

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/txmgr/txmgr/adaptive"
	"github.com/txmgr/txmgr/txn"
)

// Choice says what decides how many calls a participant gets at once: an optimizer of
// package adaptive, or a fixed number. The zero Choice is knee.
type Choice struct {
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
	custom     = "custom" // Config.Optimizer
)

// maxFixed is the largest fixed number of calls at once.
const maxFixed = 4096

// Choices is how choices are written, for people.
const Choices = knee + ", " + throughput + ", " + mean + ", " + p99 + ", or " + fixedSize + "N with N calls at once"

// ParseChoice reads a choice. It wraps [txn.ErrInvalid] if it is none.
func ParseChoice(text string) (Choice, error) {
	switch text {
	case knee:
		return Choice{}, nil
	case throughput, mean, p99:
		return Choice{name: text}, nil
	}
	if number, ok := strings.CutPrefix(text, fixedSize); ok {
		if n, err := strconv.Atoi(number); err == nil && 1 <= n && n <= maxFixed && strconv.Itoa(n) == number {
			return Choice{name: fixedSize, size: n}, nil
		}
	}
	return Choice{}, fmt.Errorf("%w: optimizer %q: want %s, from 1 to %d", txn.ErrInvalid, text, Choices, maxFixed)
}

// String is the choice as [ParseChoice] reads it.
func (c Choice) String() string {
	switch c.name {
	case "":
		return knee
	case fixedSize:
		return fixedSize + strconv.Itoa(c.size)
	}
	return c.name
}

// optimizer makes the optimizer of a choice, with limits up to most. Those of the source
// look as often as knee does, and leave the limit alone when nothing completes: between
// two storms that is nearly always.
func (c Choice) optimizer(most int) (o adaptive.Optimizer) {
	source := adaptive.Source{Period: learnEvery, Max: most, KeepIdle: true}
	var err error
	switch c.name {
	case throughput:
		o, err = adaptive.NewThroughput(adaptive.Throughput{Source: source})
	case mean:
		o, err = adaptive.NewMeanLatency(adaptive.MeanLatency{Source: source})
	case p99:
		o, err = adaptive.NewP99Latency(adaptive.P99Latency{Source: source})
	case fixedSize:
		return adaptive.Fixed(c.size)
	default:
		o, err = adaptive.NewKnee(adaptive.Knee{Max: most, Period: learnEvery})
	}
	if err != nil {
		return adaptive.Fixed(0) // cannot be: the limits are between those that are allowed
	}
	return o
}

// choice is what decides at a participant.
func (r *Recovery) choice(participant string) Choice {
	if r.cfg.Chosen != nil {
		if c, ok := r.cfg.Chosen(participant); ok {
			return c
		}
	}
	if r.cfg.Optimizer != nil {
		return Choice{name: custom}
	}
	return r.cfg.Choice
}

// optimizer makes the optimizer of a participant.
func (r *Recovery) optimizer(c Choice) adaptive.Optimizer {
	if c.name == custom {
		if o := r.cfg.Optimizer(); o != nil {
			return o
		}
		c = Choice{}
	}
	return c.optimizer(r.cfg.MaxPerParticipant)
}
