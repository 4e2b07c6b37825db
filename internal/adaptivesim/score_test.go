package adaptivesim

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// known is an oracle of a closed loop: throughput grows up to 20 workers, and falls
// from 40 on. In its second phase nothing is to be done.
func known() *Oracle {
	s := &Scenario{Name: "known", Workload: lockCont, Phases: []Phase{{Length: 10 * time.Minute, Users: 100}, {Length: time.Minute}}}
	sizes := []int{1, 10, 20, 40, 100}
	results := make([]*Result, len(sizes))
	for i, rate := range []uint64{50, 500, 1000, 1000, 400} {
		r := newResult(s, sizes[i])
		r.Phases[0].Length, r.Phases[1].Length = 10*time.Minute, time.Minute
		r.Phases[0].All.Count = rate * 600
		r.Phases[0].All.Sojourn.RecordN(time.Duration(100_000/rate)*time.Millisecond, uint32(rate*600))
		r.Phases[0].Settled.Count = r.Phases[0].All.Count
		r.Phases[0].Settled.Sojourn.Add(&r.Phases[0].All.Sojourn)
		results[i] = r
	}
	return newOracle(s, 1, sizes, results)
}

func resize(at time.Duration, from, to int) Decision {
	d := Decision{At: at, From: from, To: to}
	if at >= 10*time.Minute {
		d.Phase = 1
	}
	return d
}

func TestNeedless(t *testing.T) {
	o := known()
	if got := o.smallestGood(0); got != 19 {
		t.Errorf("the smallest good limit is %d, expected 19", got)
	}
	if got := o.bestSize(0); got != 20 {
		t.Errorf("the best limit is %d, expected 20", got)
	}
	for _, tt := range []struct {
		d        Decision
		needless bool
	}{
		{resize(0, 1, 10), false},              // helps
		{resize(0, 20, 25), true},              // nothing is better
		{resize(0, 20, 10), true},              // worse
		{resize(0, 10, 1), true},               // worse, from a bad one
		{resize(0, 19, 20), false},             // helps a little
		{resize(0, 40, 20), false},             // frees workers of more than twice as many as needed
		{resize(0, 40, 10), true},              // not if too few are left
		{resize(0, 36, 20), true},              // nor of fewer
		{resize(0, 100, 200), true},            // bad as before
		{resize(10*time.Minute, 40, 10), true}, // nothing to do: the limit changes nothing
	} {
		if got := o.needless(tt.d); got != tt.needless {
			t.Errorf("%+v: needless %v, expected %v", tt.d, got, tt.needless)
		}
	}
}

func TestConverged(t *testing.T) {
	o := known()
	for _, tt := range []struct {
		name    string
		limit   int
		resizes []Decision
		want    Convergence
	}{
		{"from the beginning", 20, nil, Convergence{}},
		{"after a climb", 1, []Decision{resize(2*time.Second, 1, 10), resize(5*time.Second, 10, 20)}, Convergence{After: 5 * time.Second}},
		{"never", 1, nil, Convergence{After: 10 * time.Minute, Never: true}},
		{
			"a short probe does not count", 20,
			[]Decision{resize(10*time.Second, 20, 10), resize(18*time.Second, 10, 20)},
			Convergence{},
		},
		{
			"a long one does", 20,
			[]Decision{resize(10*time.Second, 20, 10), resize(20*time.Second, 10, 20)},
			Convergence{After: 20 * time.Second},
		},
		{
			"at the very end", 1,
			[]Decision{resize(10*time.Minute-time.Second, 1, 20)},
			Convergence{After: 10*time.Minute - time.Second},
		},
	} {
		r := newResult(o.scenario, tt.limit)
		r.Phases[0].Length = 10 * time.Minute
		r.Decisions = tt.resizes
		if diff := cmp.Diff(tt.want, o.converged(r, 0)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestScore(t *testing.T) {
	o := known()
	r := newResult(o.scenario, 10)
	r.Phases[0].Length, r.Phases[1].Length = 10*time.Minute, time.Minute
	r.Phases[0].All.Count = 900 * 600
	r.Phases[0].All.Sojourn.RecordN(200*time.Millisecond, 900*600)
	r.Phases[0].Settled.Sojourn.RecordN(150*time.Millisecond, 800*600)
	r.Phases[0].Limit = 30
	r.Decisions = []Decision{resize(time.Minute, 10, 20), resize(2*time.Minute, 20, 20), resize(3*time.Minute, 20, 30)}
	s := o.Score(r)
	within(t, "throughput", s.Throughput, 0.9, 1e-9)
	within(t, "mean", s.Mean, 2, 0.01)
	within(t, "p99", s.P99, 2, 0.01)
	within(t, "settled p99", s.SettledP99, 1.5, 0.01)
	within(t, "limit", s.Limit, 30, 1e-9)
	within(t, "need", s.Need, 19, 1e-9)
	within(t, "rate", s.Rate, 1000, 1e-9)
	if s.Resizes != 2 || s.Needless != 1 {
		t.Errorf("%d of %d resizes are needless, expected 1 of 2", s.Needless, s.Resizes)
	}
	sum := summarize([]*Score{s, {Throughput: 0.7, Mean: 8, P99: 8, SettledP99: 6, Converged: []Convergence{{After: time.Hour, Never: true}}}})
	within(t, "mean of throughputs", sum.Throughput, 0.8, 1e-9)
	within(t, "geometric mean of p99s", sum.P99, 4, 0.01)
	if sum.Never != 1 || sum.MedianConvergence != time.Hour || math.Abs(sum.LeastThroughput-0.7) > 1e-9 {
		t.Errorf("summary: %+v", sum)
	}
}

// TestOracle has the sweep find what the workload was made for.
func TestOracle(t *testing.T) {
	s := &Scenario{Name: "LockCont", Workload: lockCont, Phases: fixed(60, 30*time.Second), Noise: 1}
	c, err := Compare(t.Context(), []*Scenario{s}, []uint64{1}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	o := c.Oracles[0]
	if best, need := o.bestSize(0), o.smallestGood(0); best < 20 || best > 25 || need < 16 || need > best {
		t.Errorf("the best limit is %d, the smallest good one %d; the backend has 20 slots", best, need)
	}
	if top := o.sizes[len(o.sizes)-1]; top != 60 {
		t.Errorf("the sweep goes up to %d, with 60 users", top)
	}
}

// TestCompareIsTheSameWithManyAtOnce compares a comparison, whose runs share the
// processors, with runs one after the other.
func TestCompareIsTheSameWithManyAtOnce(t *testing.T) {
	scenarios := []*Scenario{
		{Name: "a", Workload: dbWrite, Phases: fixed(20, 20*time.Second), Noise: 1},
		{Name: "b", Workload: openLock, Phases: []Phase{{Length: 20 * time.Second, Rate: 100}}, Noise: 1},
	}
	contenders := Contenders()
	runs := 0
	c, err := Compare(t.Context(), scenarios, []uint64{1, 2}, contenders, func() { runs++ })
	if err != nil {
		t.Fatal(err)
	}
	if want := Runs(scenarios, 2, len(contenders)); runs != want {
		t.Errorf("%d runs, %d were announced", runs, want)
	}
	for i, contender := range contenders {
		for j, score := range c.Scores[i].All {
			o, err := contender.New()
			if err != nil {
				t.Fatal(err)
			}
			want := Run(scenarios[j/2], o, contender.Limit, uint64(1+j%2))
			if diff := cmp.Diff(want.Decisions, score.Result.Decisions); diff != "" {
				t.Errorf("%s, %s (-alone +together):\n%s", contender.Name, scenarios[j/2].Name, diff)
			}
			if got, want := score.Result.Phases[0].All.Count, want.Phases[0].All.Count; got != want {
				t.Errorf("%s, %s: %d tasks together, %d alone", contender.Name, scenarios[j/2].Name, got, want)
			}
		}
	}
}

// TestInterruptedCompare has a comparison end when its context does.
func TestInterruptedCompare(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := &Scenario{Name: "a", Workload: dbWrite, Phases: fixed(20, time.Second), Noise: 1}
	runs := 0
	c, err := Compare(ctx, []*Scenario{s, s, s}, []uint64{1}, nil, func() { runs++; cancel() })
	if !errors.Is(err, context.Canceled) || c != nil {
		t.Errorf("interrupted after %d runs: %v, %v", runs, c, err)
	}
	if all := Runs([]*Scenario{s}, 1, 0); runs >= all {
		t.Errorf("%d runs after the end, a scenario has %d", runs, all)
	}
}
