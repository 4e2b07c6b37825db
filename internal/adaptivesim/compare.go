package adaptivesim

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"

	"github.com/txmgr/txmgr/adaptive"
)

// Contender is an optimizer that takes part in a comparison.
type Contender struct {
	Name string
	// New makes one for each run.
	New func() (adaptive.Optimizer, error)
	// Limit is the first.
	Limit int
}

// Scores are those of one contender, for each scenario and seed.
type Scores struct {
	Contender Contender
	All       []*Score
}

// Comparison is the result of all contenders in all scenarios.
type Comparison struct {
	Scenarios []*Scenario
	Seeds     []uint64
	Oracles   []*Oracle // for each scenario, then for each seed
	Scores    []Scores  // for each contender; inside, in the order of the oracles
}

// Runs is how many runs a comparison takes, those of the oracles included.
func Runs(scenarios []*Scenario, seeds, contenders int) int {
	n := 0
	for _, s := range scenarios {
		n += seeds * (len(sweepSizes(s)) + contenders)
	}
	return n
}

// Compare runs all contenders in all scenarios with all seeds, as many at once as there
// are processors. The result does not depend on how many that are. done, which may be
// nil, is called after each run, one call at a time. When ctx ends, the error is its
// own, and there is no comparison.
func Compare(ctx context.Context, scenarios []*Scenario, seeds []uint64, contenders []Contender, done func()) (*Comparison, error) {
	c := &Comparison{Scenarios: scenarios, Seeds: seeds, Scores: make([]Scores, len(contenders))}
	var jobs []job
	for _, s := range scenarios {
		for _, seed := range seeds {
			o := &sweep{scenario: s, seed: seed, sizes: sweepSizes(s)}
			o.fixed = make([]*Result, len(o.sizes))
			for i, size := range o.sizes {
				jobs = append(jobs, job{s, seed, nil, size, &o.fixed[i]})
			}
			o.adapted = make([]*Result, len(contenders))
			for i, contender := range contenders {
				optimizer, err := contender.New()
				if err != nil {
					return nil, err
				}
				jobs = append(jobs, job{s, seed, optimizer, contender.Limit, &o.adapted[i]})
			}
			if err := c.add(ctx, jobs, o, done); err != nil {
				return nil, err
			}
			jobs = jobs[:0]
		}
	}
	for i := range contenders {
		c.Scores[i].Contender = contenders[i]
	}
	return c, nil
}

// sweep is a scenario with one seed, under all fixed limits and all contenders.
type sweep struct {
	scenario *Scenario
	seed     uint64
	sizes    []int
	fixed    []*Result
	adapted  []*Result
}

type job struct {
	scenario  *Scenario
	seed      uint64
	optimizer adaptive.Optimizer
	limit     int
	result    **Result
}

// add runs the jobs of a sweep, and keeps what the comparison needs of it.
func (c *Comparison) add(ctx context.Context, jobs []job, s *sweep, done func()) error {
	// The longest first, so that none runs alone at the end.
	slices.SortStableFunc(jobs, func(a, b job) int { return cmp.Compare(b.limit, a.limit) })
	next := make(chan job)
	var workers sync.WaitGroup
	var counting sync.Mutex
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for j := range next {
				*j.result = Run(j.scenario, j.optimizer, j.limit, j.seed)
				if done != nil {
					counting.Lock()
					done()
					counting.Unlock()
				}
			}
		})
	}
	for _, j := range jobs {
		if ctx.Err() != nil {
			break
		}
		next <- j
	}
	close(next)
	workers.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}

	o := newOracle(s.scenario, s.seed, s.sizes, s.fixed)
	c.Oracles = append(c.Oracles, o)
	for i, r := range s.adapted {
		c.Scores[i].All = append(c.Scores[i].All, o.Score(r))
	}
	return nil
}
