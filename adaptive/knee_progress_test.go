package adaptive

import (
	"testing"
	"time"
)

// Decisions that a single window must not cause, and searches that must end.

// limits runs a knee through so many windows, each changed before it is shown.
func limits(k *knee, p *simService, limit, windows int, change func(i int, w *Window)) []int {
	all := make([]int, 0, windows)
	for i := range windows {
		w := p.window(limit)
		if change != nil {
			change(i, w)
		}
		limit = k.Observe(w).Limit
		all = append(all, limit)
	}
	return all
}

// slowed removes a part of the completions, as a pause of the process does.
func slowed(w *Window, part float64) {
	w.Completed = uint64(part * float64(w.Completed))
	w.BoundCompleted = uint64(part * float64(w.BoundCompleted))
}

// TestWhatIsPlainlyWorse: a plainly worse limit is recognized in two windows, and no sooner.
func TestWhatIsPlainlyWorse(t *testing.T) {
	p := &simService{users: 400, slots: 16, took: 20 * time.Millisecond, loss: 0.02}
	k := kneeOf(t, Knee{})
	k.adopt(16)
	k.mustProve = true
	tried := 0
	for _, limit := range limits(k, p, 16, 12, nil) {
		if limit == 32 {
			tried++
		}
	}
	if tried != 3 || k.hi == 0 { // in the first of them the tasks of the smaller limit leave
		t.Errorf("32, with a third less, was in force for %d windows; useless from %d on", tried, k.hi)
	}
}

// TestPlainlyWorse: each of two windows at least, by more than a quarter and five standard
// errors.
func TestPlainlyWorse(t *testing.T) {
	slow, slower, fast := sample{completed: 70, seconds: 1}, sample{completed: 20, seconds: 1}, sample{completed: 90, seconds: 1}
	for name, c := range map[string]struct {
		windows series
		err     float64
		want    bool
	}{
		"two":           {series{slow, slower}, 0.01, true},
		"one":           {series{slow}, 0.01, false},
		"one is better": {series{slower, fast, slower}, 0.01, false},
		"chance":        {series{slow, slower}, 0.1, false},
		"nothing":       {nil, 0.01, false},
	} {
		tr := trial{series: c.windows}
		if got := tr.plainlyWorse(4.605, c.err); got != c.want { // ln 100
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestOneWindow: one slow window, whichever it is, does not keep the search from the right limit.
func TestOneWindow(t *testing.T) {
	for _, part := range []float64{0.4, 0.5, 0.6, 2} {
		for _, start := range []int{4, 16, 64} {
			for bad := range 20 {
				p := &simService{users: 400, slots: 64, took: 20 * time.Millisecond, loss: 0.005}
				all := limits(kneeOf(t, Knee{}), p, start, 120, func(i int, w *Window) {
					if i == bad {
						slowed(w, part)
					}
				})
				if last := all[len(all)-1]; p.rate(last) < 0.85*p.best() {
					t.Errorf("window %d has %v times as much, and from %d on it finds %d in a minute: %v", bad, part, start, last, all)
				}
			}
		}
	}
}

// TestDiminishingReturns: where each doubling brings 15 %, or 7 %, the search ends at the first by
// default, and goes on where workers cost little.
func TestDiminishingReturns(t *testing.T) {
	for _, c := range []struct{ power, cost, least, most float64 }{
		{0.2, 0.25, 1, 20},
		{0.1, 0.25, 1, 20},
		{0.2, 0.05, 200, 400},
		{0.1, 0.05, 100, 400},
		{0.02, 0.05, 1, 20},
	} {
		for _, start := range []int{1, 4, 16} {
			p := &simService{users: 400, power: c.power, took: time.Millisecond}
			limit, _, _ := p.run(t, kneeOf(t, Knee{WorkerCost: c.cost}), start, time.Minute)
			if float64(limit) < c.least || float64(limit) > max(c.most, 1.3*float64(start)) {
				t.Errorf("power %v, cost %v: from %d to %d in a minute, want one from %v to %v", c.power, c.cost, start, limit, c.least, c.most)
			}
		}
	}
}

// TestBarelyBinding: as many users as the limit has places, or few more. The limit binds,
// and a larger one has nothing to show; so it is not tried for ever, and a smaller one is.
func TestBarelyBinding(t *testing.T) {
	for _, c := range []struct{ users, slots, start int }{{33, 4, 32}, {17, 5, 16}, {210, 64, 200}, {105, 20, 100}} {
		p := &simService{users: c.users, slots: c.slots, took: 20 * time.Millisecond, loss: 0.01}
		all := limits(kneeOf(t, Knee{}), p, c.start, 20*60*2, nil)
		if last := all[len(all)-1]; p.rate(last) < 0.9*p.best() {
			t.Errorf("%d users, %d slots: from %d to %d in twenty minutes", c.users, c.slots, c.start, last)
		}
	}
}

// TestDemandGrows: a limit that was useless for too few users is tried again as soon as
// there are more, and not only by the next probe.
func TestDemandGrows(t *testing.T) {
	p := &simService{users: 72, slots: 64, took: 20 * time.Millisecond}
	k := kneeOf(t, Knee{ProbeAfter: time.Hour})
	all := limits(k, p, 64, 600, nil)
	base := all[len(all)-1]
	if k.hi == 0 || k.uselessDemand == 0 {
		t.Fatalf("%d for 72 users; useless from %d on, for so many alone: %v", base, k.hi, k.uselessDemand)
	}
	p.users, p.slots = 400, 400
	all = limits(k, p, base, 60, nil)
	if last := all[len(all)-1]; p.rate(last) < 0.9*p.best() {
		t.Errorf("half a minute after there is more to do: %d, from %d", last, base)
	}
}

// TestTrialWithoutLoad ends after a minute.
func TestTrialWithoutLoad(t *testing.T) {
	p := &simService{users: 400, slots: 64, took: 20 * time.Millisecond, loss: 0.01}
	k := kneeOf(t, Knee{})
	limits(k, p, 8, 2, nil)
	if k.trial.limit != 16 {
		t.Fatalf("it tries %d", k.trial.limit)
	}
	p.users = 0
	ended := 0
	for i, limit := range limits(k, p, 16, 200, nil) {
		if limit == 8 && ended == 0 {
			ended = i
		}
	}
	if ended < 100 || ended > 130 || k.hi != 0 {
		t.Errorf("ended after %d windows; useless from %d on", ended, k.hi)
	}
}

// TestNothingCompletes: while nothing completes nothing is tried, and no limit stays in
// force that may be the cause.
func TestNothingCompletes(t *testing.T) {
	p := &simService{users: 400, slots: 12, took: 10 * time.Millisecond, stands: true}
	if limit, _, resizes := p.run(t, kneeOf(t, Knee{}), 16, 10*time.Minute); resizes != 0 {
		t.Errorf("%d changes, to %d", resizes, limit)
	}
	p = &simService{users: 4000, slots: 640, took: 20 * time.Millisecond}
	k := kneeOf(t, Knee{})
	all := limits(k, p, 8, 8, nil)
	tried, base := all[len(all)-1], k.base
	if k.trial.limit != tried || tried <= base {
		t.Fatalf("it does not climb: %v", all)
	}
	p.stands = true
	after := limits(k, p, tried, 1200, nil)
	if after[10] != base || after[len(after)-1] != base {
		t.Errorf("five seconds after all answers ceased: %d, and at last %d; want %d", after[10], after[len(after)-1], base)
	}
	p.stands = false
	again := limits(k, p, base, 240, nil)
	if last := again[len(again)-1]; p.rate(last) < 0.9*p.best() {
		t.Errorf("two minutes after they are back: %d", last)
	}
}

// TestSlowTasks: tasks of more than a minute are evidence as well.
func TestSlowTasks(t *testing.T) {
	for _, took := range []time.Duration{20 * time.Second, 65 * time.Second, 5 * time.Minute} {
		p := &simService{users: 400, slots: 64, took: took}
		all := limits(kneeOf(t, Knee{}), p, 16, 24*3600*2, nil)
		if last := all[len(all)-1]; p.rate(last) < 0.6*p.best() {
			t.Errorf("tasks of %v: %d after a day", took, last)
		}
	}
}
