package adaptivesim

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// These runs have no noise, and their results can be computed by hand.

func within(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance*want) {
		t.Errorf("%s: %.5g, expected %.5g", what, got, want)
	}
}

func quiet(w *Workload, p Phase, limit int) *PhaseResult {
	r := Run(&Scenario{Workload: w, Phases: []Phase{p}}, nil, limit, 1)
	return &r.Phases[0]
}

func computing(mean float64) *Workload {
	return &Workload{slots: unlimited, draw: func(r *rand.Rand, _ *Phase) steps { return steps{{processors, exp(r, mean)}} }}
}

func throughput(p *PhaseResult) float64 { return float64(p.All.Count) / p.Length.Seconds() }

// TestQueues has Poisson arrivals and exponential work in a queue, first in, first out:
// M/M/1 and M/M/4.
func TestQueues(t *testing.T) {
	const mu = 100.0
	one := quiet(computing(1/mu), Phase{Length: 2 * time.Hour, Rate: 80}, 1)
	within(t, "mean sojourn of M/M/1", one.All.Sojourn.Mean().Seconds(), 1/(mu-80), 0.03)
	within(t, "p99 of M/M/1", one.All.Sojourn.Quantile(0.99).Seconds(), math.Log(100)/(mu-80), 0.05)

	const lambda, c = 320.0, 4
	a := lambda / mu
	erlang, term := 0.0, 1.0
	for k := range c {
		erlang += term
		term *= a / float64(k+1)
	}
	waiting := term * c / (c - a)
	waiting /= erlang + waiting
	four := quiet(computing(1/mu), Phase{Length: 2 * time.Hour, Rate: lambda}, c)
	within(t, "mean sojourn of M/M/4", four.All.Sojourn.Mean().Seconds(), 1/mu+waiting/(c*mu-lambda), 0.03)
}

// TestSharing has work of two very different lengths on a backend of one slot without
// a queue in front. Under processor sharing only its mean counts.
func TestSharing(t *testing.T) {
	w := &Workload{slots: 1, draw: func(r *rand.Rand, _ *Phase) steps {
		if r.IntN(10) == 0 {
			return steps{{backend, 0.055}}
		}
		return steps{{backend, 0.005}}
	}}
	p := quiet(w, Phase{Length: 4 * time.Hour, Rate: 60}, Max)
	within(t, "mean sojourn of M/G/1 under processor sharing", p.All.Sojourn.Mean().Seconds(), 0.01/(1-0.6), 0.03)
}

// TestClosedLoop is Little's law, and the throughput that follows from the slowest part.
func TestClosedLoop(t *testing.T) {
	constant := func(slots int, thrash float64) *Workload {
		return &Workload{slots: slots, thrash: thrash, draw: call(0, 0.1, 0, 0)}
	}
	load := Phase{Length: 10 * time.Minute, Users: 100}
	for _, tt := range []struct {
		name  string
		w     *Workload
		limit int
		rate  float64
	}{
		{"limited by the limit", constant(unlimited, 0), 20, 20 / 0.1},
		{"limited by the users", constant(unlimited, 0), 200, 100 / 0.101},
		{"limited by the slots", constant(30, 0), 60, 30 / 0.1},
		{"thrashing", constant(30, 0.02), 60, 30 / (1 + 0.02*30) / 0.1},
		{"limited by the processors", computing(0.01), 4, cores / 0.01},
		{"switching", &Workload{switching: 0.01, slots: unlimited, draw: computing(0.01).draw}, 50, cores / (1 + 0.01*46) / 0.01},
	} {
		p := quiet(tt.w, load, tt.limit)
		within(t, tt.name, throughput(p), tt.rate, 0.02)
		within(t, tt.name+": users, by Little's law", throughput(p)*(p.All.Sojourn.Mean()+think).Seconds(), 100, 0.02)
	}
}

// TestGroupCommit has every user in every second flush: one half waits while the
// other half is written.
func TestGroupCommit(t *testing.T) {
	w := &Workload{slots: unlimited, flush: 0.02, row: 0.0005, draw: func(*rand.Rand, *Phase) steps { return steps{{commitLog, 0}} }}
	p := quiet(w, Phase{Length: 10 * time.Minute, Users: 40}, 40)
	// All come back within 1.5 ms of a flush, while the next one is under way at most.
	r := throughput(p)
	if least, most := 20/(0.02+20*0.0005), 40/(0.02+40*0.0005); r < least*0.98 || r > most*1.02 {
		t.Errorf("%.0f tasks a second, expected from %.0f to %.0f", r, least, most)
	}
	alone := quiet(w, Phase{Length: 10 * time.Minute, Users: 40}, 1)
	within(t, "one at a time", throughput(alone), 1/0.0205, 0.02)
}

// TestOpenLoop counts the arrivals: by a rate, in bursts, and as a backlog.
func TestOpenLoop(t *testing.T) {
	w := computing(0.0001)
	p := quiet(w, Phase{Length: 10 * time.Minute, Rate: 100, Burst: 5, BurstFor: 10 * time.Second, BurstEvery: time.Minute}, Max)
	within(t, "tasks of a rate with bursts", float64(p.All.Count), 600*(100*50+500*10)/60, 0.02)
	r := Run(&Scenario{Workload: computing(0.01), Phases: []Phase{{Length: 10 * time.Second, Backlog: 10_000}}}, nil, 4, 1)
	done := r.Phases[0].All.Count
	within(t, "tasks of a backlog", float64(done), 4000, 0.05)
	if r.Left+int(done)+4 != 10_000 {
		t.Errorf("%d of the backlog are done, and %d are left", done, r.Left)
	}
	// The first 4000 had waited 5 s on average, the others all the time.
	within(t, "mean wait", r.MeanWait().Seconds(), (4000*5+6000*10)/10_000.0, 0.05)
}
