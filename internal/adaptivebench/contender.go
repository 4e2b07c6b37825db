package adaptivebench

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/txmgr/txmgr/adaptive"
	"github.com/txmgr/txmgr/adaptive/costa"
)

// MaxPool is the largest fixed pool that can be measured.
const MaxPool = 1000

// Contender is a pool of a fixed size, or one that an optimizer sizes.
type Contender struct {
	// Name is the size, or the optimizer's name; if Optimizer is set, it is what
	// distinguishes this setting.
	Name string
	// Size is how many workers it has; 0 means that an optimizer decides.
	Size int
	// Optimizer is the optimizer's name where contenders have one with several settings.
	Optimizer string
	Setting   Setting
}

// Setting is how an optimizer differs from the published one. Zero means
// no difference.
type Setting struct {
	// Period is from one decision to the next, in the dissertation's time. A window of knee,
	// which is not shortened, is a twentieth of it.
	Period time.Duration
	// Lock is for how long a direction is not tried again after a step in it was useless,
	// in the dissertation's time; for knee, how long a limit is left alone at first.
	Lock time.Duration
	// Step is by how many workers the size changes at once. Knee has none.
	Step int
	// Change is the least acceptable change, as a part of what was before; for knee, what a
	// further worker must be worth.
	Change float64
}

// Optimizers are the names of the optimizers that can be measured.
func Optimizers() []string {
	return []string{"throughput", "mean", "p99", "knee", "throughput-reconciled", "mean-reconciled", "p99-reconciled"}
}

// DefaultContenders are the contenders of the dissertation, and knee.
const DefaultContenders = "1,2,4,10,50,100,throughput,mean,p99,knee"

// ParseContenders reads sizes and names of optimizers with commas between them.
func ParseContenders(list string) ([]Contender, error) {
	var all []Contender
	for text := range strings.SplitSeq(list, ",") {
		c := Contender{Name: strings.TrimSpace(text)}
		if n, err := strconv.Atoi(c.Name); err == nil {
			if n < 1 || n > MaxPool {
				return nil, fmt.Errorf("a pool of %d workers: want 1 to %d", n, MaxPool)
			}
			c = Contender{Name: strconv.Itoa(n), Size: n}
		} else if cost, ok := strings.CutPrefix(c.Name, "knee-"); ok {
			if c.Setting.Change, err = strconv.ParseFloat(cost, 64); err != nil || !(c.Setting.Change >= 0.01 && c.Setting.Change <= 1) {
				return nil, fmt.Errorf("%q: want knee-0.05, for example, with what a further worker must be worth, from 0.01 to 1", c.Name)
			}
			c.Optimizer = "knee"
		} else if !slices.Contains(Optimizers(), c.Name) {
			return nil, fmt.Errorf("there is no pool %q: want sizes, knee-0.05 for example, and some of %s", c.Name, strings.Join(Optimizers(), ", "))
		}
		if slices.Contains(all, c) {
			return nil, fmt.Errorf("%s is there twice", c.Name)
		}
		all = append(all, c)
	}
	return all, nil
}

// Make makes the optimizer of the pool, and the size to begin with, for experiments that are
// shortened by a factor of speed.
func (c Contender) Make(speed float64) (adaptive.Optimizer, int, error) {
	if c.Size > 0 {
		return adaptive.Fixed(c.Size), c.Size, nil
	}
	name, reconciled := strings.CutSuffix(cmp.Or(c.Optimizer, c.Name), "-reconciled")
	s, period := c.Setting, cmp.Or(c.Setting.Period, sourcePeriod)
	source := costa.Config{Period: time.Duration(float64(period) / speed), Step: s.Step, Lock: int(s.Lock / period), Strict: !reconciled}
	var o adaptive.Optimizer
	var err error
	switch {
	case name == "throughput":
		o, err = costa.NewThroughput(costa.Throughput{Config: source, Threshold: s.Change})
	case name == "mean":
		o, err = costa.NewMeanLatency(costa.MeanLatency{Config: source, Threshold: s.Change})
	case name == "p99":
		o, err = costa.NewP99Latency(costa.P99Latency{Config: source, Threshold: s.Change})
	case name == "knee" && !reconciled:
		o, err = adaptive.NewKnee(adaptive.Knee{Period: s.Period / kneeShare, ProbeAfter: s.Lock, WorkerCost: s.Change})
	default:
		err = fmt.Errorf("there is no optimizer %q", cmp.Or(c.Optimizer, c.Name))
	}
	return o, 1, err
}

// kneeShare is how many windows of knee, half seconds as a rule, are in one of the
// dissertation's.
const kneeShare = 20

// decisionRecorder records an optimizer's decisions. It is read when the pool is closed.
type decisionRecorder struct {
	adaptive.Optimizer
	resizes []Resize
}

// Observe passes the window on and keeps the decision if it changes something.
func (o *decisionRecorder) Observe(w *adaptive.Window) adaptive.Decision {
	d := o.Optimizer.Observe(w)
	if d.Limit != w.Limit {
		o.resizes = append(o.resizes, Resize{Size: d.Limit, Why: d.Why, at: w.End})
	}
	return d
}
