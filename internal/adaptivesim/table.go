package adaptivesim

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// summary sums a contender's scores up over many scenarios.
type summary struct {
	Throughput, LeastThroughput float64
	Mean, MostMean              float64
	P99, MostP99                float64
	SettledP99, MostSettledP99  float64
	MedianConvergence           time.Duration
	MeanConvergence             time.Duration
	Phases                      int // with a load
	Never                       int // in how many of them the limit did not converge
	Resizes, Needless           int
}

// summarize adds scores up: throughput as the mean, latencies as the geometric mean.
func summarize(scores []*Score) summary {
	s := summary{LeastThroughput: math.Inf(1)}
	var mean, tail, settled geoMean
	var times []time.Duration
	for _, c := range scores {
		s.Throughput += c.Throughput / float64(len(scores))
		s.LeastThroughput = min(s.LeastThroughput, c.Throughput)
		mean.add(c.Mean, 1)
		tail.add(c.P99, 1)
		settled.add(c.SettledP99, 1)
		s.MostMean = max(s.MostMean, c.Mean)
		s.MostP99 = max(s.MostP99, c.P99)
		s.MostSettledP99 = max(s.MostSettledP99, c.SettledP99)
		for _, v := range c.Converged {
			times = append(times, v.After)
			s.MeanConvergence += v.After
			if v.Never {
				s.Never++
			}
		}
		s.Resizes += c.Resizes
		s.Needless += c.Needless
	}
	s.Mean, s.P99, s.SettledP99 = mean.geometric(), tail.geometric(), settled.geometric()
	if s.Phases = len(times); s.Phases > 0 {
		slices.Sort(times)
		s.MedianConvergence = times[len(times)/2]
		s.MeanConvergence /= time.Duration(len(times))
	}
	return s
}

// closed reports whether a score is of a closed loop with more than one user.
func closed(s *Score) bool {
	return !s.Scenario.Open() && slices.ContainsFunc(s.Scenario.Phases, func(p Phase) bool { return p.concurrent() })
}

// Of returns the scores of a contender for which keep holds; nil keeps all.
func (c *Comparison) Of(contender string, keep func(*Score) bool) []*Score {
	var scores []*Score
	for _, s := range c.Scores {
		if s.Contender.Name != contender {
			continue
		}
		for _, score := range s.All {
			if keep == nil || keep(score) {
				scores = append(scores, score)
			}
		}
	}
	return scores
}

// Table formats all results as tables in Markdown.
func (c *Comparison) Table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Closed loops (%d seeds)\n\n", len(c.Seeds))
	b.WriteString("| optimizer | X % mean (min) | mean lat. x (max) | p99 x (max) | p99 from 30 s x (max) | converged after: median / mean s | never, of phases | needless | resizes |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|\n")
	for _, s := range c.Scores {
		sum := summarize(c.Of(s.Contender.Name, closed))
		n := float64(len(c.Seeds))
		fmt.Fprintf(&b, "| %s | %.1f (%.0f) | %.3f (%.2f) | %.2f (%.1f) | %.2f (%.2f) | %.0f / %.0f | %.1f of %.0f | %.0f | %.0f |\n",
			s.Contender.Name, 100*sum.Throughput, 100*sum.LeastThroughput, sum.Mean, sum.MostMean, sum.P99, sum.MostP99,
			sum.SettledP99, sum.MostSettledP99, sum.MedianConvergence.Seconds(), sum.MeanConvergence.Seconds(),
			float64(sum.Never)/n, float64(sum.Phases)/n, float64(sum.Needless)/n, float64(sum.Resizes)/n)
	}
	for _, t := range perScenario {
		c.detail(&b, t.title, t.format, t.figure)
	}
	return b.String()
}

var perScenario = []struct {
	title, format string
	figure        func(*Score) float64
}{
	{"Throughput, % of the oracle's", "%.0f", func(s *Score) float64 { return 100 * s.Throughput }},
	{"p99, in multiples of the oracle's", "%.2f", func(s *Score) float64 { return s.P99 }},
	{"p99 from 30 s after each change on", "%.2f", func(s *Score) float64 { return s.SettledP99 }},
	{"Mean latency, in multiples of the oracle's", "%.2f", func(s *Score) float64 { return s.Mean }},
	{"Mean wait, including those who wait at the end", "%.2f", func(s *Score) float64 { return s.MeanWait }},
	{"Seconds to converge", "%.0f", (*Score).convergence},
	{"Needless resizes", "%.0f", func(s *Score) float64 { return float64(s.Needless) }},
	{"Time average of the limit", "%.0f", func(s *Score) float64 { return s.Limit }},
}

func (s *Score) convergence() float64 {
	var sum time.Duration
	for _, c := range s.Converged {
		sum += c.After
	}
	return sum.Seconds() / float64(max(1, len(s.Converged)))
}

func (c *Comparison) detail(b *strings.Builder, title, format string, figure func(*Score) float64) {
	fmt.Fprintf(b, "\n%s\n\n| scenario | best |", title)
	for _, s := range c.Scores {
		fmt.Fprintf(b, " %s |", s.Contender.Name)
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", len(c.Scores)) + "\n")
	for i, scenario := range c.Scenarios {
		fmt.Fprintf(b, "| %s | %s |", scenario.Name, c.Oracles[i*len(c.Seeds)].bestSizes())
		for _, s := range c.Scores {
			sum := 0.0
			for _, score := range s.All[i*len(c.Seeds):][:len(c.Seeds)] {
				sum += figure(score)
			}
			fmt.Fprintf(b, " "+format+" |", sum/float64(len(c.Seeds)))
		}
		b.WriteString("\n")
	}
}

// bestSizes names the best limit, and the smallest good one, of each phase.
func (o *Oracle) bestSizes() string {
	var all []string
	for i := range o.phases {
		if o.scenario.Phases[i].concurrent() {
			all = append(all, fmt.Sprintf("%d (%d)", o.bestSize(i), o.smallestGood(i)))
		}
	}
	return cmp.Or(strings.Join(slices.Compact(all), ", "), "any")
}
