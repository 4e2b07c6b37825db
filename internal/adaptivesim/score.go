package adaptivesim

import (
	"math"
	"slices"
	"time"
)

// Convergence is how long after the beginning of a phase the limit began to stay
// among the good ones.
type Convergence struct {
	Phase int
	After time.Duration // the phase's length if it never did
	Never bool
}

// Score is the result of an optimizer, compared with the oracle.
type Score struct {
	Scenario *Scenario
	Seed     uint64
	Rate     float64 // tasks per second that the oracle would have done

	Throughput float64 // completed tasks, as a part of the oracle's
	// Mean, P99 and SettledP99 are latencies as multiples of the oracle's, as the
	// geometric mean over the phases. Settled leaves out half a minute after each change.
	Mean, P99, SettledP99 float64
	// MeanWait is the same of the time for which a task was present, over the whole run,
	// including those that were still present at the end.
	MeanWait float64

	Converged []Convergence // for each phase with a load

	Resizes, Needless int
	// Limit is the time average of the limit, Need that of the smallest good one, both
	// over the concurrent phases.
	Limit, Need float64

	Result *Result
}

// Score compares a result with what fixed limits would have given.
func (o *Oracle) Score(r *Result) *Score {
	s := &Score{Scenario: o.scenario, Seed: o.seed, Rate: o.Rate(), Result: r}
	var tasks, possible, concurrent float64
	var mean, tail, settled geoMean
	for i := range r.Phases {
		p, best := &r.Phases[i], o.best[i]
		seconds := p.Length.Seconds()
		tasks += float64(p.All.Count)
		possible += best.rate * seconds
		phase := &o.scenario.Phases[i]
		if !phase.loaded() {
			continue
		}
		got := outcomeOf(p)
		mean.add(got.mean, best.mean)
		tail.add(got.p99, best.p99)
		settled.add(got.settledP99, best.settledP99)
		s.Converged = append(s.Converged, o.converged(r, i))
		if phase.concurrent() {
			concurrent += seconds
			s.Limit += p.Limit * seconds
			s.Need += float64(o.smallestGood(i)) * seconds
		}
	}
	s.Throughput = tasks / possible
	s.Mean, s.P99, s.SettledP99 = mean.geometric(), tail.geometric(), settled.geometric()
	s.MeanWait = r.MeanWait().Seconds() / slices.Min(o.waits)
	if concurrent > 0 {
		s.Limit /= concurrent
		s.Need /= concurrent
	}
	for _, d := range r.Resizes() {
		s.Resizes++
		if o.needless(d) {
			s.Needless++
		}
	}
	return s
}

// manyWorkers workers are a burden where few would do; fewer are none.
const manyWorkers = 16

// needless resizes make nothing better: not noticeably more is done, and no workers
// become free when there were many, and more than twice as many as needed. Where
// there is next to nothing to do the limit is not reached, and changes nothing.
func (o *Oracle) needless(d Decision) bool {
	if !o.scenario.Phases[d.Phase].concurrent() {
		return true
	}
	saves := d.To < d.From && d.From > max(manyWorkers, 2*o.smallestGood(d.Phase)) && o.good(d.Phase, d.To)
	return !saves && !o.helps(d.Phase, d.From, d.To)
}

// The limit has converged when it is good, and stays so for this part of the rest.
const (
	stableShare = 0.85
	stableFor   = time.Minute
)

// span is a time with one limit.
type span struct {
	from, to time.Duration
	limit    int
}

// spans returns the limits of a phase.
func (r *Result) spans(phase int) []span {
	p := &r.Phases[phase]
	limit := r.Limit
	all := []span{{from: p.Start}}
	for _, d := range r.Resizes() {
		if d.At >= p.Start+p.Length {
			break
		}
		if d.At > p.Start {
			last := &all[len(all)-1]
			last.limit, last.to = limit, d.At
			all = append(all, span{from: d.At})
		}
		limit = d.To
	}
	last := &all[len(all)-1]
	last.limit, last.to = limit, p.Start+p.Length
	return all
}

func (o *Oracle) converged(r *Result, phase int) Convergence {
	p := &r.Phases[phase]
	all := r.spans(phase)
	for i, s := range all {
		if !o.good(phase, s.limit) {
			continue
		}
		end := min(s.from+stableFor, p.Start+p.Length)
		var good time.Duration
		for _, later := range all[i:] {
			if later.from >= end {
				break
			}
			if o.good(phase, later.limit) {
				good += min(later.to, end) - later.from
			}
		}
		if float64(good) >= stableShare*float64(end-s.from) {
			return Convergence{Phase: phase, After: s.from - p.Start}
		}
	}
	return Convergence{Phase: phase, After: p.Length, Never: true}
}

// geoMean accumulates a geometric mean.
type geoMean struct {
	logs  float64
	count int
}

// add counts a figure as a multiple of the best. Where nothing was completed there
// is no figure, and the throughput shows it.
func (r *geoMean) add(got, best float64) {
	if got > 0 && best > 0 && !math.IsInf(best, 1) {
		r.logs += math.Log(got / best)
		r.count++
	}
}

func (r *geoMean) geometric() float64 {
	if r.count == 0 {
		return 1
	}
	return math.Exp(r.logs / float64(r.count))
}
