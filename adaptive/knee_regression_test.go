package adaptive

import (
	"math"
	"testing"
	"time"
)

// Regressions: searches that must be repeated or continued.

// paused makes one long window of a window and a pause of the process after it.
func paused(p *simService, w *Window, pause time.Duration) {
	w.End += pause
	w.BusyTime += pause * time.Duration(w.BusyMax)
	w.QueueTime += pause * time.Duration(w.QueueLen)
	w.BoundTime += pause
	p.now = w.End
}

// TestBurstsOverALittleLoad: none of the bursts is long enough for a proof, but their evidence adds
// up.
func TestBurstsOverALittleLoad(t *testing.T) {
	for _, c := range []struct {
		start   int // and users between bursts
		took    time.Duration
		on, off int // seconds
	}{{1, 700 * time.Millisecond, 5, 20}, {4, 3 * time.Second, 7, 10}, {2, 400 * time.Millisecond, 1, 5}} {
		p := &simService{slots: 40, took: c.took}
		k := kneeOf(t, Knee{})
		limit := c.start
		for i := range 2 * 3600 {
			p.users = c.start
			if i%((c.on+c.off)*2) >= c.off*2 {
				p.users = 150
			}
			limit = k.Observe(p.window(limit)).Limit
		}
		if p.rate(limit) < 0.9*p.best() {
			t.Errorf("%+v: %d after an hour", c, limit)
		}
	}
}

// TestShortSearches: two minutes of load in twelve are not enough for a search that begins far
// too high, and it goes on with the next.
func TestShortSearches(t *testing.T) {
	p := &simService{slots: 40, took: 400 * time.Millisecond, loss: 0.005}
	k := kneeOf(t, Knee{})
	limit := 200
	for i := range 80 * 120 {
		p.users = 2000
		if i%(720*2) >= 120*2 {
			p.users = 1
		}
		limit = k.Observe(p.window(limit)).Limit
	}
	if p.rate(limit) < 0.9*p.best() {
		t.Errorf("%d after seven bursts", limit)
	}
}

// TestPause of the whole process, which is one long window: it is no evidence, whenever it comes.
func TestPause(t *testing.T) {
	for _, pause := range []time.Duration{3 * time.Second, 12 * time.Second} {
		for bad := range 20 {
			p := &simService{users: 400, slots: 64, took: 20 * time.Millisecond, loss: 0.005}
			all := limits(kneeOf(t, Knee{}), p, 4, 180, func(i int, w *Window) {
				if i == bad {
					paused(p, w, pause)
				}
			})
			sum := 0.0
			for _, l := range all[bad+1:] {
				sum += p.rate(l) / p.best()
			}
			if mean := sum / float64(len(all)-bad-1); mean < 0.92 {
				t.Errorf("a pause of %v in window %d: %.2f of the best: %v", pause, bad, mean, all)
			}
		}
	}
}

// TestLongWindows: a pool that has only long windows still learns.
func TestLongWindows(t *testing.T) {
	p := &simService{users: 400, slots: 64, took: 20 * time.Millisecond}
	all := limits(kneeOf(t, Knee{Period: 50 * time.Millisecond}), p, 4, 200, nil)
	if last := all[len(all)-1]; p.rate(last) < 0.9*p.best() {
		t.Errorf("windows ten times too long: %d", last)
	}
}

// TestAlarmWithOneSide: at the largest limit, or with the processors used up, a change of the
// work leads down at once.
func TestAlarmWithOneSide(t *testing.T) {
	for _, hot := range []bool{false, true} {
		p := &simService{users: 400, slots: 64, took: 20 * time.Millisecond, loss: 0.01}
		cfg := Knee{Max: 64}
		if hot {
			cfg = Knee{MaxCPU: 0.9}
		}
		k, limit := settledKnee(t, p, cfg)
		p.slots = 8
		if hot {
			p.cpu = 0.95
		}
		if _, reached, _ := p.run(t, k, limit, time.Minute); reached < 0 || reached > 60 {
			t.Errorf("hot %v: good again after %d windows", hot, reached)
		}
	}
}

// TestProbesWithOneSide: where there is nothing smaller every probe goes up, and comes as often
// as is promised.
func TestProbesWithOneSide(t *testing.T) {
	p := &simService{users: 400, slots: 1, took: 20 * time.Millisecond, loss: 0.05}
	k := kneeOf(t, Knee{})
	prev, longest, since := 1, 0, 0
	for _, l := range limits(k, p, 1, 4*3600*2, nil) {
		if since++; l > prev {
			longest, since = max(longest, since), 0
		}
		prev = l
	}
	if seconds := longest / 2; seconds < 16*60 || seconds > 17*60 {
		t.Errorf("%d seconds between two probes", seconds)
	}
}

// TestEnough: that a larger limit is not needed holds for the demand that there was.
func TestEnough(t *testing.T) {
	p := &simService{users: 33, slots: 1000, took: 20 * time.Millisecond}
	k := kneeOf(t, Knee{})
	all := limits(k, p, 32, 40*120, nil)
	p.users = 50
	all = limits(k, p, all[len(all)-1], 60, nil)
	if last := all[len(all)-1]; last < 48 {
		t.Errorf("%d for 50 users, half a minute after they were 33", last)
	}
}

// TestFarMoreAfterAHold: the work changes so that a little more gains a little, and far
// more gains far more; a probe of a little more is followed by a search.
func TestFarMoreAfterAHold(t *testing.T) {
	p := &simService{users: 400, slots: 4, took: 20 * time.Millisecond, loss: 0.02}
	k, limit := settledKnee(t, p, Knee{})
	p.power, p.took = 0.2, time.Millisecond
	if limit, _, _ = p.run(t, k, limit, 20*time.Minute); limit < 64 {
		t.Errorf("%d after twenty minutes", limit)
	}
}

// TestFewCompletions: where one or two complete in a window, windows without completions are
// random, and are not left out as a pause would be.
func TestFewCompletions(t *testing.T) {
	var s series
	for i := range 20 {
		s.add(sample{float64(2 * (i % 2)), 0.5, 1, 0})
	}
	if e := s.estimate(0, 3); math.Abs(e.log-math.Log(2)) > 1e-9 {
		t.Errorf("%.2f in a second, and not 2", math.Exp(e.log))
	}
	p := &simService{users: 400, power: 0.3, took: time.Second}
	if limit, _, _ := p.run(t, kneeOf(t, Knee{}), 4, 40*time.Minute); limit < 12 {
		t.Errorf("%d, of which each doubling would bring 23 %%", limit)
	}
}

// TestShortPeriods: what is kept of a limit is a proof, however short the windows are.
func TestShortPeriods(t *testing.T) {
	for _, every := range []time.Duration{shortestPeriod, 50 * time.Millisecond, 100 * time.Millisecond} {
		p := &simService{users: 80, slots: 64, took: 20 * time.Millisecond, every: every}
		k := kneeOf(t, Knee{Period: every})
		all := limits(k, p, 56, int(time.Minute/every), nil) // so few wait that it must be proven
		if last := all[len(all)-1]; p.rate(last) < 0.95*p.best() || k.mode != holding {
			t.Errorf("windows of %v: %d after a minute, mode %v", every, last, k.mode)
		}
	}
}

// TestNothingCompletesAbove a limit, every time: it is tried again, but ever more rarely.
func TestNothingCompletesAbove(t *testing.T) {
	p := &simService{users: 400, slots: 1000, took: 20 * time.Millisecond}
	k := kneeOf(t, Knee{})
	limit, dead := 16, 0
	const windows = 2 * 3600 * 2
	for range windows {
		if p.stands = limit > 40; p.stands {
			dead++
		}
		limit = k.Observe(p.window(limit)).Limit
	}
	if part := float64(dead) / windows; part > 0.02 || limit > 40 || limit < 32 {
		t.Errorf("at %d; nothing completed in %.1f %% of two hours", limit, 100*part)
	}
}

// TestSearchesEnd: a search goes on after a trial that had no load, but not for ever.
func TestSearchesEnd(t *testing.T) {
	k := kneeOf(t, Knee{})
	k.adopt(32)
	for n := range 4 {
		k.mode = shrinking
		k.trial = trial{limit: 16}
		k.abandon()
		if want := map[bool]mode{true: shrinking, false: holding}[n < 3]; k.mode != want || k.limit != 32 {
			t.Errorf("after %d trials: mode %v, limit %d", n+1, k.mode, k.limit)
		}
	}
	k.trial = trial{limit: 16}
	if k.conclude(false, -0.5, 0.05); k.slack.resumed != 0 {
		t.Error("a verdict does not count")
	}
}
