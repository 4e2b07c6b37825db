package adaptivesim

import (
	"math"
	"slices"
	"sort"
)

// sizes are the fixed limits of a sweep; those above the largest that makes a
// difference are left out, and that one is added.
var sizes = []int{
	1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 25, 32, 40, 50, 64, 80, 100, 128, 160, 200, 256, 320, 400, 500, 600, 700, 850, Max,
}

// A limit is as good as the best with this part of its throughput in a closed loop, and this
// multiple of its 99th percentile in an open one, where all tasks complete in the end.
const (
	goodRate = 0.95
	goodP99  = 1.15
)

// outcome is the result of a fixed limit in a phase. Times are in seconds.
type outcome struct {
	rate       float64 // tasks a second
	mean, p99  float64
	settledP99 float64 // of the tasks from half a minute after the beginning on
}

func outcomeOf(p *PhaseResult) outcome {
	return outcome{
		rate:       float64(p.All.Count) / p.Length.Seconds(),
		mean:       p.All.Sojourn.Mean().Seconds(),
		p99:        p.All.Sojourn.Quantile(0.99).Seconds(),
		settledP99: p.Settled.Sojourn.Quantile(0.99).Seconds(),
	}
}

// Oracle has the result of each fixed limit in a scenario, with the same
// noise. It is not changed once it is made, and may be used by many goroutines.
type Oracle struct {
	scenario *Scenario
	seed     uint64
	sizes    []int
	waits    []float64   // mean wait in seconds, for each size
	phases   [][]outcome // for each phase and size
	best     []outcome   // for each phase, the best value of each figure
}

// sweepSizes are the limits that an oracle of a scenario tries.
func sweepSizes(s *Scenario) []int {
	top := s.largest()
	all := slices.Clone(sizes[:sort.SearchInts(sizes, top)])
	return append(all, top)
}

// newOracle takes the results of a sweep, one for each size.
func newOracle(s *Scenario, seed uint64, sizes []int, results []*Result) *Oracle {
	o := &Oracle{scenario: s, seed: seed, sizes: sizes, phases: make([][]outcome, len(s.Phases))}
	for _, r := range results {
		o.waits = append(o.waits, r.MeanWait().Seconds())
		for i := range r.Phases {
			o.phases[i] = append(o.phases[i], outcomeOf(&r.Phases[i]))
		}
	}
	for phase := range o.phases {
		o.best = append(o.best, o.bestOf(phase))
	}
	return o
}

// bestOf takes the smallest times of all sizes that do as much as is possible: a
// closed loop is also fast with a small limit, when the limit keeps the users waiting
// elsewhere.
func (o *Oracle) bestOf(phase int) outcome {
	best := outcome{mean: math.Inf(1), p99: math.Inf(1), settledP99: math.Inf(1)}
	for _, c := range o.phases[phase] {
		best.rate = max(best.rate, c.rate)
	}
	for _, c := range o.phases[phase] {
		if c.rate < goodRate*best.rate {
			continue
		}
		best.mean = min(best.mean, c.mean)
		best.p99 = min(best.p99, c.p99)
		best.settledP99 = min(best.settledP99, c.settledP99)
	}
	return best
}

// at returns a figure for any size: between two that were tried, it is linear in
// the logarithm of the size.
func (o *Oracle) at(phase, size int, figure func(outcome) float64) float64 {
	all := o.phases[phase]
	i := sort.SearchInts(o.sizes, size)
	if i == len(o.sizes) {
		return figure(all[i-1])
	}
	if o.sizes[i] == size || i == 0 {
		return figure(all[i])
	}
	a, b := o.sizes[i-1], o.sizes[i]
	part := math.Log(float64(size)/float64(a)) / math.Log(float64(b)/float64(a))
	return (1-part)*figure(all[i-1]) + part*figure(all[i])
}

func rate(c outcome) float64 { return c.rate }
func p99(c outcome) float64  { return c.p99 }

// good reports whether a limit is about as good as the best one.
func (o *Oracle) good(phase, size int) bool {
	if o.scenario.Open() {
		return o.at(phase, size, p99) <= goodP99*o.best[phase].p99
	}
	return o.at(phase, size, rate) >= goodRate*o.best[phase].rate
}

// helps reports whether a limit is noticeably better than another one.
func (o *Oracle) helps(phase, from, to int) bool {
	const noticeable = 1.02
	if o.scenario.Open() {
		return o.at(phase, from, p99) > noticeable*o.at(phase, to, p99)
	}
	return o.at(phase, to, rate) > noticeable*o.at(phase, from, rate)
}

// smallestGood is the smallest good limit.
func (o *Oracle) smallestGood(phase int) int {
	for size := 1; size < o.sizes[len(o.sizes)-1]; size++ {
		if o.good(phase, size) {
			return size
		}
	}
	return o.sizes[len(o.sizes)-1]
}

// bestSize is the limit with the highest throughput in a phase, in an open loop that
// with the smallest 99th percentile.
func (o *Oracle) bestSize(phase int) int {
	better := func(a, b outcome) bool { return a.rate > b.rate }
	if o.scenario.Open() {
		better = func(a, b outcome) bool { return a.p99 < b.p99 }
	}
	best := 0
	for i, c := range o.phases[phase] {
		if better(c, o.phases[phase][best]) {
			best = i
		}
	}
	return o.sizes[best]
}

// Rate is the mean throughput, in tasks a second, of the best limit of each phase.
func (o *Oracle) Rate() float64 {
	var tasks, seconds float64
	for i := range o.best {
		length := o.scenario.Phases[i].Length.Seconds()
		if o.scenario.Phases[i].concurrent() {
			tasks += o.best[i].rate * length
			seconds += length
		}
	}
	if seconds == 0 {
		return o.best[0].rate
	}
	return tasks / seconds
}
