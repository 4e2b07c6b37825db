//go:build !race

package adaptivesim

import (
	"flag"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"
)

// The race detector makes these runs ten times as long, and has nothing to find in
// them: TestCompareIsTheSameWithManyAtOnce is for it.

var seeds = flag.Int("adaptivesim.seeds", 1, "with how many seeds the optimizers are judged")

// compared runs the suite once for all gates. Verbose runs, whose table somebody reads,
// have all contenders; the others, those that the gates ask for.
var compared = sync.OnceValues(func() (*Comparison, error) {
	contenders := Contenders()
	if !testing.Verbose() {
		var asked []Contender
		for _, c := range contenders {
			switch c.Name {
			case nameKnee, nameT, nameM, name99P:
				asked = append(asked, c)
			}
		}
		contenders = asked
	}
	return Compare(append(Suite(), Others()...), seedList(), contenders)
})

func seedList() []uint64 {
	var all []uint64
	for s := range *seeds {
		all = append(all, uint64(s)+1)
	}
	return all
}

func comparison(t *testing.T) *Comparison {
	t.Helper()
	c, err := compared()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// suite keeps the scenarios that the goals speak of; the others are there to see
// whether the goals are met elsewhere, too.
func suite(s *Score) bool { return !other(s) }

func other(s *Score) bool {
	for _, o := range Others() {
		if o.Name == s.Scenario.Name {
			return true
		}
	}
	return false
}

func both(a, b func(*Score) bool) func(*Score) bool {
	return func(s *Score) bool { return a(s) && b(s) }
}

func open(s *Score) bool { return s.Scenario.Open() }

// busy scenarios have enough completions for windows of half a second.
func busy(s *Score) bool { return s.Rate >= 500 }

func failed(t *testing.T, s *Score, format string, args ...any) {
	t.Helper()
	t.Errorf("%s, seed %d: %s\nX %.1f %%, mean %.2fx, p99 %.2fx (%.2fx from 30 s after each change), converged %v, needless %d of %d resizes, limit %.0f where %.0f are needed\n%s",
		s.Scenario.Name, s.Seed, fmt.Sprintf(format, args...), 100*s.Throughput, s.Mean, s.P99, s.SettledP99,
		s.Converged, s.Needless, s.Resizes, s.Limit, s.Need, s.Result.Story(60))
}

// worst shows where a gate about all scenarios was lost.
func worst(scores []*Score, figure func(*Score) float64) string {
	var b strings.Builder
	var at *Score
	for _, s := range scores {
		fmt.Fprintf(&b, "%-22s seed %d: %.3f\n", s.Scenario.Name, s.Seed, figure(s))
		if at == nil || figure(s) > figure(at) {
			at = s
		}
	}
	fmt.Fprintf(&b, "the worst, %s, seed %d:\n%s", at.Scenario.Name, at.Seed, at.Result.Story(60))
	return b.String()
}

func TestThroughput(t *testing.T) {
	for _, group := range []struct {
		name string
		keep func(*Score) bool
	}{{"suite", suite}, {"others", other}} {
		t.Run(group.name, func(t *testing.T) {
			scores := comparison(t).Of(nameKnee, both(group.keep, closed))
			if sum := summarize(scores); sum.Throughput < 0.95 {
				t.Errorf("%.1f %% of the oracle's throughput on average, 95 %% wanted\n%s", 100*sum.Throughput,
					worst(scores, func(s *Score) float64 { return 1 - s.Throughput }))
			}
			for _, s := range scores {
				least := 0.93
				if s.Scenario.Shift || !busy(s) {
					least = 0.88
				}
				if s.Throughput < least {
					failed(t, s, "%.1f %% of the oracle's throughput, %.0f %% wanted", 100*s.Throughput, 100*least)
				}
			}
		})
	}
}

func TestTailLatency(t *testing.T) {
	for _, group := range []struct {
		name string
		keep func(*Score) bool
	}{{"suite", suite}, {"others", other}} {
		t.Run(group.name, func(t *testing.T) {
			scores := comparison(t).Of(nameKnee, both(group.keep, closed))
			sum := summarize(scores)
			if sum.SettledP99 > 1.10 {
				t.Errorf("p99 from 30 s after each change on is %.3f times the oracle's in the geometric mean, 1.10 wanted\n%s",
					sum.SettledP99, worst(scores, func(s *Score) float64 { return s.SettledP99 }))
			}
			if sum.P99 > 1.15 {
				t.Errorf("p99 is %.3f times the oracle's in the geometric mean, 1.15 wanted\n%s",
					sum.P99, worst(scores, func(s *Score) float64 { return s.P99 }))
			}
			for _, s := range scores {
				if busy(s) && s.SettledP99 > 1.25 {
					failed(t, s, "p99 from 30 s after each change on is %.2f times the oracle's, 1.25 wanted", s.SettledP99)
				}
			}
		})
	}
}

func TestConvergence(t *testing.T) {
	scores := comparison(t).Of(nameKnee, both(suite, func(s *Score) bool { return !open(s) }))
	if sum := summarize(scores); sum.MedianConvergence > 10*time.Second {
		t.Errorf("half of the changes of the load take longer than %v, 10 s wanted\n%s", sum.MedianConvergence,
			worst(scores, (*Score).convergence))
	}
	known := 0
	for _, s := range scores {
		if !strings.HasSuffix(s.Scenario.Name, "/varying") {
			continue
		}
		last := s.Converged[len(s.Converged)-1]
		known++
		if last.After > 0 {
			failed(t, s, "a load that was known converged after %v, at once wanted", last.After)
		}
	}
	if known == 0 {
		t.Error("no load returned")
	}
}

func TestNeedlessResizes(t *testing.T) {
	c := comparison(t)
	keep := both(suite, func(s *Score) bool { return !open(s) })
	count := func(name string) float64 { return float64(summarize(c.Of(name, keep)).Needless) }
	knee := count(nameKnee)
	for _, bound := range []struct {
		name string
		part float64
	}{{nameT, 2}, {nameM, 3}, {name99P, 3}} {
		if most := count(bound.name) / bound.part; knee > most {
			t.Errorf("%.0f needless resizes; %s has %.0f, and 1/%.0f of that is wanted\n%s", knee, bound.name, count(bound.name), bound.part,
				worst(c.Of(nameKnee, keep), func(s *Score) float64 { return float64(s.Needless) }))
		}
	}
	for _, s := range c.Of(nameKnee, keep) {
		minutes := 0.0
		for i := range s.Scenario.Phases {
			minutes += s.Scenario.Phases[i].Length.Minutes()
		}
		if !s.Scenario.Shift && float64(s.Needless) > minutes {
			failed(t, s, "%d needless resizes in %.0f minutes, one a minute wanted", s.Needless, minutes)
		}
	}
}

func TestBacklog(t *testing.T) {
	scores := comparison(t).Of(nameKnee, func(s *Score) bool { return s.Scenario.Backlogged() })
	if len(scores) == 0 {
		t.Error("no scenario has a backlog")
	}
	for _, s := range scores {
		if s.MeanWait > 1.2 {
			failed(t, s, "a task of a backlog of 200,000 waits %.2f times as long as with the oracle, 1.2 wanted", s.MeanWait)
		}
	}
}

func TestBursts(t *testing.T) {
	scores := comparison(t).Of(nameKnee, func(s *Score) bool { return strings.HasSuffix(s.Scenario.Name, "/bursts") })
	if len(scores) == 0 {
		t.Error("no scenario has bursts")
	}
	for _, s := range scores {
		if s.P99 > 2.5 {
			failed(t, s, "p99 under bursts is %.2f times the oracle's, 2.5 wanted", s.P99)
		}
	}
}

func TestSize(t *testing.T) {
	for _, s := range comparison(t).Of(nameKnee, both(suite, closed)) {
		if s.Limit > 1.3*s.Need {
			failed(t, s, "the limit is %.1f on average, where %.1f is good enough", s.Limit, s.Need)
		}
	}
}

// TestTable shows what was found: go test -v -run TestTable ./internal/adaptivesim.
func TestTable(t *testing.T) {
	c := comparison(t)
	table := c.Table()
	t.Log("\n" + table)
	for _, s := range c.Scenarios {
		if rows := strings.Count(table, "\n| "+s.Name+" |"); rows != len(perScenario) {
			t.Errorf("%s is in %d of %d tables", s.Name, rows, len(perScenario))
		}
	}
	for _, s := range c.Scores {
		for _, score := range s.All {
			if math.IsNaN(score.Throughput) || score.Throughput > 1.05 {
				failed(t, score, "%s cannot have done %.1f %% of what is possible", s.Contender.Name, 100*score.Throughput)
			}
		}
	}
}
