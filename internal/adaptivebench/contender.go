package adaptivebench

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/txmgr/txmgr/adaptive"
)

// MaxPool is the largest fixed pool that can be measured.
const MaxPool = 1000

// Contender is a pool of a fixed size, or one that an optimizer sizes.
type Contender struct {
	// Name is the size, or the optimizer's name.
	Name string
	// Size is how many workers it has; 0 says that an optimizer decides.
	Size int
}

// Optimizers are the names of the optimizers that can be measured.
func Optimizers() []string {
	return []string{"throughput", "mean", "p99", "knee", "throughput-reconciled", "mean-reconciled", "p99-reconciled"}
}

// DefaultContenders are what the source compares, and knee.
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
		} else if !slices.Contains(Optimizers(), c.Name) {
			return nil, fmt.Errorf("there is no pool %q: want sizes and some of %s", c.Name, strings.Join(Optimizers(), ", "))
		}
		if slices.Contains(all, c) {
			return nil, fmt.Errorf("%s is there twice", c.Name)
		}
		all = append(all, c)
	}
	return all, nil
}

// optimizer makes what sizes the pool, and the size to begin with. period is the
// length of a window of the source's.
func (c Contender) optimizer(period time.Duration) (adaptive.Optimizer, int, error) {
	if c.Size > 0 {
		return adaptive.Fixed(c.Size), c.Size, nil
	}
	name, reconciled := strings.CutSuffix(c.Name, "-reconciled")
	source := adaptive.Source{Period: period, Strict: !reconciled}
	var o adaptive.Optimizer
	var err error
	switch name {
	case "throughput":
		o, err = adaptive.NewThroughput(adaptive.Throughput{Source: source})
	case "mean":
		o, err = adaptive.NewMeanLatency(adaptive.MeanLatency{Source: source})
	case "p99":
		o, err = adaptive.NewP99Latency(adaptive.P99Latency{Source: source})
	case "knee":
		o, err = adaptive.NewKnee(adaptive.Knee{})
	default:
		err = fmt.Errorf("there is no pool %q", c.Name)
	}
	return o, 1, err
}

// Resize is a change of a pool's size.
type Resize struct {
	// At is when, in seconds of the source's time.
	At   float64 `json:"at_seconds"`
	Size int     `json:"size"`
	Why  string  `json:"why"`

	at time.Duration // since the pool was made
}

// witness writes down what an optimizer decides. It is read when the pool is closed.
type witness struct {
	adaptive.Optimizer
	seen []Resize
}

// Observe passes on the window and keeps the decision if it changes something.
func (o *witness) Observe(w *adaptive.Window) adaptive.Decision {
	d := o.Optimizer.Observe(w)
	if d.Limit != w.Limit {
		o.seen = append(o.seen, Resize{Size: d.Limit, Why: d.Why, at: w.End})
	}
	return d
}
