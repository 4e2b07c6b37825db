package adaptive

import (
	"math"
	"slices"
	"testing"
	"time"
)

// The rules of the search one by one, each in a constructed state.

func TestWantedGain(t *testing.T) {
	none := math.Inf(-1)
	for _, c := range []struct {
		name        string
		base, limit int
		loose       bool
		best        float64
		want        float64
	}{
		{"twice as many", 10, 20, false, none, 0.25 * math.Log(2)},
		{"a little more", 10, 12, false, none, 0.25 * math.Log(1.2)},
		{"half", 10, 5, false, none, -0.02},
		{"half, after a loss of 1 %", 10, 5, false, 5.01, -0.01},
		{"half, after a loss of 5 %", 10, 5, false, 5.05, 0},
		{"half, where demand fits", 10, 5, true, none, -0.02},
		{"a little less, where demand fits", 10, 8, true, none, 0.02},
	} {
		k := &knee{Knee: Knee{WorkerCost: 0.25}, base: c.base, best: c.best}
		k.trial.limit, k.trial.baseUnbound = c.limit, c.loose
		k.trial.add(sample{1, 1, 1, 0}, float64(c.limit), 1)
		if got := k.wanted(5); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v, not %v", c.name, got, c.want)
		}
	}
}

func TestNextLimit(t *testing.T) {
	for _, c := range []struct {
		name              string
		base, lo, hi      int
		arrivals, service float64
		above, below      int
	}{
		{"nothing known", 10, 0, 0, 0, 0, 20, 5},
		{"one", 1, 0, 0, 0, 0, 5, 0},
		{"the offered load needs more", 10, 0, 0, 1000, 0.05, 60, 5},
		{"it needs far more", 10, 0, 0, 1000, 5, 80, 5},
		{"it needs less", 10, 0, 0, 10, 0.05, 20, 5},
		{"useless above", 10, 0, 16, 0, 0, 13, 5},
		{"useless just above", 10, 0, 12, 0, 0, 0, 5},
		{"useless further up", 10, 0, 30, 0, 0, 20, 5},
		{"inferior below", 10, 6, 0, 0, 0, 20, 8},
		{"inferior just below", 10, 9, 0, 0, 0, 20, 0},
		{"neighbours", 2, 1, 3, 0, 0, 0, 0},
		{"largest", 1024, 0, 0, 0, 0, 0, 512},
		{"next to the largest", 1000, 0, 0, 0, 0, 1024, 500},
	} {
		k := kneeOf(t, Knee{})
		k.base, k.lo, k.hi, k.arrivals, k.service = c.base, c.lo, c.hi, c.arrivals, c.service
		if above, below := k.above(), k.below(); above != c.above || below != c.below {
			t.Errorf("%s: %d and %d, not %d and %d", c.name, above, below, c.above, c.below)
		}
	}
}

func TestEstimate(t *testing.T) {
	steady := series{}
	for range 10 {
		steady.add(sample{50, 0.5, 1, 0})
	}
	steady.add(sample{50, 0, 1, 0}) // no time, no evidence
	want := math.Log(100)
	e := steady.estimate(0, 3)
	if math.Abs(e.log-want) > 1e-9 || e.completed != 500 || e.seconds != 5 || math.Abs(e.err-math.Hypot(1/math.Sqrt(500), drift)) > 1e-9 {
		t.Errorf("steady: %+v", e)
	}
	stalls := append(series{}, steady...)
	for range 4 { // two seconds in which nearly nothing goes on
		stalls.add(sample{1, 0.5, 1, 0})
	}
	if e := stalls.estimate(0, 3); math.Abs(e.log-want) > 1e-9 {
		t.Errorf("with a pause: %+v", e)
	}
	if e := stalls.estimate(0, 1); e.seconds != 6 || math.Abs(e.log-math.Log(502.0/6)) > 1e-9 {
		t.Errorf("with too long a pause: %+v", e)
	}
	if e := (series{}).estimate(0, 3); !math.IsInf(e.log, -1) || !math.IsInf(e.err, 1) {
		t.Errorf("of nothing: %+v", e)
	}
	if e := (series{{0, 2, 1, 0}}).estimate(0, 0); e.log != math.Log(0.25) {
		t.Errorf("of windows in which nothing completes: %+v", e)
	}
}

func TestWhatIsKeptOfTheBase(t *testing.T) {
	var s series
	for n := range 300 {
		s.add(sample{float64(n), 0.5, 1, 0})
		s.forget(0.1)
	}
	if len(s) != proofMin || s[0].completed != 300-proofMin {
		t.Errorf("%d windows of many completions, from %v", len(s), s[0])
	}
	s.clear()
	for range 300 {
		s.add(sample{0.1, 0.5, 1, 0})
		s.forget(0.1)
	}
	if len(s) != proofMax {
		t.Errorf("%d windows of few completions", len(s))
	}
	s.clear()
	for range 300 {
		s.add(sample{10, 0.5, 1, 0})
		s.forget(10)
	}
	if len(s) != 60 { // three service times
		t.Errorf("%d windows of slow tasks", len(s))
	}
}

// Evidence of a limit that binds is not mixed with that of one that is merely full.
func TestEvidenceIsNotMixed(t *testing.T) {
	p := &simService{users: 40, slots: 8, took: 20 * time.Millisecond}
	k := kneeOf(t, Knee{Max: 8})
	k.Observe(p.window(8))
	k.Observe(p.window(8))
	if len(k.proof) != 2 || !k.proofBound {
		t.Fatalf("%d windows that bind", len(k.proof))
	}
	p.users = 8 // as many as there are workers
	k.Observe(p.window(8))
	if len(k.proof) != 1 || k.proofBound {
		t.Errorf("%d windows, bound %v", len(k.proof), k.proofBound)
	}
}

// Where shares of the limit keep workers free, a limit that binds is used whole: a
// trial reaches as far as it is.
func TestTrialReachesAsFarAsItBinds(t *testing.T) {
	for _, bound := range []bool{true, false} {
		k := kneeOf(t, Knee{})
		k.adopt(10)
		k.trial.limit, k.limit = 20, 20
		w := &Window{End: time.Second, Limit: 20, BusyMax: 12}
		if bound {
			w.BoundTime = time.Second
		}
		k.smooth(w, 1)
		if want := map[bool]int{true: 20, false: 12}[bound]; k.trial.peak != want {
			t.Errorf("bound %v: reaches to %d, not %d", bound, k.trial.peak, want)
		}
	}
}

// A trial that began while the limit did not bind is judged by returning demand:
// a backlog that drains through it would make any limit look good.
func TestBacklogDoesNotCountForALooseTrial(t *testing.T) {
	for _, loose := range []bool{true, false} {
		k := kneeOf(t, Knee{})
		k.adopt(10)
		k.trial = trial{limit: 20, baseUnbound: loose}
		k.limit = 20
		p := &simService{users: 100, slots: 50, took: 20 * time.Millisecond}
		w := p.window(20)
		w.Arrived = 3
		k.learn(w, w.Length().Seconds())
		want := float64(w.Completed)
		if loose {
			want = 3
		}
		if got := k.trial.series[0].completed; got != want {
			t.Errorf("loose %v: %v count, not %v", loose, got, want)
		}
	}
}

// An alarm ends with the hold that it interrupted: later trials are probes again.
func TestAlarmEnds(t *testing.T) {
	p := &simService{users: 100, slots: 20, took: 20 * time.Millisecond, cpu: 1}
	k, limit := settledKnee(t, p, Knee{})
	k.hold.alarm = searchDown
	k.enterHold()
	if k.hold.alarm != noAlarm {
		t.Error("the alarm goes on")
	}
	k.MaxCPU, k.cpuSaturated = 0.9, true // no larger one can be tried
	k.Min = limit                        // nor a smaller one
	k.restartSearch()
	if k.mode != holding || k.hold.alarm != noAlarm || k.limit != limit {
		t.Errorf("mode %v, alarm %v, limit %d", k.mode, k.hold.alarm, k.limit)
	}
}

// Each time that following demand was wrong it takes twice as long to follow again.
func TestPatienceGrows(t *testing.T) {
	k := kneeOf(t, Knee{})
	k.adopt(12)
	for want := 40.0; want <= slackMost; want *= 2 {
		k.slack.proven = 64
		if !k.restore() || k.slack.patience != want || k.base != 64 {
			t.Errorf("patience %v, base %d", k.slack.patience, k.base)
		}
		k.base = 12
	}
	if k.restore() {
		t.Error("restored what is not there")
	}
}

// A larger limit is tried before the first one is proven, unless there is none, and if it
// does not show at once that it is better, the first one is proven then, once.
func TestTheFirstProofMayWait(t *testing.T) {
	k := kneeOf(t, Knee{Max: 16})
	p := &simService{users: 400, slots: 12, took: 10 * time.Millisecond}
	var at []int
	limit := 10
	for range 10 {
		limit = k.Observe(p.window(limit)).Limit
		at = append(at, limit)
	}
	// 20 % more of 60 % more is above what is wanted, but not by so much.
	if at[1] != 16 || at[3] != 16 || at[4] != 10 || !k.mustProve {
		t.Errorf("limits %v", at)
	}
	if back := slices.Index(at[5:], 16); back != 1 { // a second and a half of evidence, and what leaves
		t.Errorf("limits %v: tried again after %d windows", at, back)
	}
	k = kneeOf(t, Knee{Max: 10})
	for n := range 2 {
		if d := k.Observe(p.window(10)); d.Limit != 10 {
			t.Errorf("window %d: to %d with nothing above", n, d.Limit)
		}
	}
}

// A limit that was useless is still useless when demand is back.
func TestUselessStaysUseless(t *testing.T) {
	k := kneeOf(t, Knee{})
	k.adopt(12)
	k.slack.proven, k.slack.useless = 64, 76
	if !k.restore() || k.base != 64 || k.hi != 76 {
		t.Errorf("base %d, useless %d", k.base, k.hi)
	}
}

// Returns diminish: half as many that do half as much leave nothing to look for in between.
func TestInferior(t *testing.T) {
	for _, c := range []struct {
		name         string
		small, large int
		gain         float64
		loose        bool
		want         int
	}{
		{"as many times more", 16, 32, math.Log(2), false, 31},
		{"more than that", 16, 32, 2, false, 31},
		{"half of it", 16, 32, math.Log(1.5), false, 23},
		{"nothing", 16, 32, 0, false, 16},
		{"less", 16, 32, -1, false, 16},
		{"what demand was, not what could be", 16, 32, math.Log(2), true, 16},
	} {
		k := &knee{Knee: Knee{WorkerCost: 0.25}, bound: true}
		k.trial.baseUnbound = c.loose
		if got := k.dominated(c.small, c.large, c.gain); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// The evidence of a trial of slow tasks is kept as long as it is needed.
func TestProofOfSlowTasks(t *testing.T) {
	k := kneeOf(t, Knee{})
	k.adopt(10)
	k.service, k.proofBound, k.bound = 20, true, true
	k.trial = trial{limit: 20, peak: 20}
	for range 200 {
		k.trial.add(sample{0.25, 0.5, 1, 0}, 20, 0.5)
	}
	k.conclude(true, 0.7, 0.1)
	if n := len(k.proof); n != 120 { // 30 completions
		t.Errorf("%d windows of 200 are kept", n)
	}
}

// A trial that began before the base was proven is over when its best window is useless beside
// the worst of the base, and not sooner than after two of each.
func TestHastyTrial(t *testing.T) {
	rate := func(rates ...float64) (all series) {
		for _, r := range rates {
			all.add(sample{r, 1, 1, 0})
		}
		return all
	}
	for name, c := range map[string]struct {
		base, trial series
		limit       int // on trial then
		patient     bool
	}{
		"one window":              {rate(1000, 1000), rate(1000), 20, false},
		"useless":                 {rate(1000, 1000), rate(1000, 900), 14, false},
		"the base had a pause":    {rate(500, 1000), rate(1000, 900), 0, true},
		"the base is one window":  {rate(1000), rate(1000, 900), 0, true},
		"it brings something":     {rate(1000, 1000), rate(1150, 1150), 0, true},
		"it brings what it ought": {rate(1000, 1000), rate(1300, 1300), 0, true},
	} {
		k := kneeOf(t, Knee{})
		k.adopt(10)
		k.limit, k.proofBound, k.bound, k.mode, k.demand = 20, true, true, climbing, 100
		k.proof = c.base
		k.trial = trial{limit: 20, hasty: true, series: c.trial, workers: 40, seconds: 2}
		k.evaluate(shortestTrial)
		if k.trial.limit != c.limit || k.mustProve != c.patient {
			t.Errorf("%s: then %d, patient %v", name, k.trial.limit, k.mustProve)
		}
	}
}

// Nothing in between completes more than the larger limit, unless that does harm: a larger one
// is then useless from where its share of the growth would be more than that.
func TestUseless(t *testing.T) {
	for _, c := range []struct {
		name         string
		small, large int
		gain, err    float64
		loose        bool
		want         int
	}{
		{"nothing", 16, 32, 0, 0.035, false, 19},
		{"something", 16, 32, 0.1, 0.035, false, 28},
		{"nearly enough", 16, 32, 0.15, 0.035, false, 32},
		{"chance", 16, 32, -0.03, 0.035, false, 19},
		{"harm", 16, 32, -0.04, 0.035, false, 32},
		{"neighbours", 1, 2, 0, 0.035, false, 2},
		{"what demand was, not what could be", 16, 32, 0, 0.035, true, 32},
	} {
		k := &knee{Knee: Knee{WorkerCost: 0.25}, bound: true}
		k.trial.baseUnbound = c.loose
		if got := k.useless(c.small, c.large, c.gain, c.err); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
