package adaptivesim

import (
	"cmp"
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

// Comparison is what came of all contenders in all scenarios.
type Comparison struct {
	Scenarios []*Scenario
	Seeds     []uint64
	Oracles   []*Oracle // for each scenario, then for each seed
	Scores    []Scores  // for each contender; inside, in the order of the oracles
}

// Compare runs all contenders in all scenarios with all seeds, as many at once as there
// are processors. The result does not depend on how many that are.
func Compare(scenarios []*Scenario, seeds []uint64, contenders []Contender) (*Comparison, error) {
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
			c.add(jobs, o)
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
func (c *Comparison) add(jobs []job, s *sweep) {
	// The longest first, so that none is left alone at the end.
	slices.SortStableFunc(jobs, func(a, b job) int { return cmp.Compare(b.limit, a.limit) })
	next := make(chan job)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for j := range next {
				*j.result = Run(j.scenario, j.optimizer, j.limit, j.seed)
			}
		})
	}
	for _, j := range jobs {
		next <- j
	}
	close(next)
	workers.Wait()

	o := newOracle(s.scenario, s.seed, s.sizes, s.fixed)
	c.Oracles = append(c.Oracles, o)
	for i, r := range s.adapted {
		c.Scores[i].All = append(c.Scores[i].All, o.Score(r))
	}
}
