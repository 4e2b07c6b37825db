package adaptive

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

var (
	nan = math.NaN()
	inf = math.Inf(1)
)

// refused checks that the error is an ErrConfig, and that there is no optimizer.
func refused(t *testing.T, name string, of func() (Optimizer, error)) {
	t.Helper()
	if o, err := of(); o != nil || !errors.Is(err, ErrConfig) {
		t.Errorf("%s: %v, %v", name, o, err)
	}
}

// TestKneeFindsIt, from whatever start, and comes to rest there.
func TestKneeFindsIt(t *testing.T) {
	for _, slots := range []int{1, 4, 20, 60, 200} {
		for _, loss := range []float64{0, 0.002} {
			for _, start := range []int{1, 4, 300} {
				t.Run(fmt.Sprintf("slots=%d/loss=%v/start=%d", slots, loss, start), func(t *testing.T) {
					p := &simService{users: 400, slots: slots, took: 20 * time.Millisecond, loss: loss}
					k := kneeOf(t, Knee{})
					limit, reached, _ := p.run(t, k, start, 6*time.Minute)
					enough := 0.97
					if loss > 0 {
						enough = 0.9 // a single best size is not found more exactly
					}
					if best := p.best(); p.rate(limit) < enough*best || limit > max(slots+1, slots*13/10) {
						t.Errorf("limit %d for %d slots yields %.0f of %.0f in a second", limit, slots, p.rate(limit), best)
					}
					if start < slots && (reached < 0 || reached > 60) {
						t.Errorf("good enough after %d windows", reached)
					}
					if _, _, resizes := p.run(t, k, limit, 10*time.Minute); resizes > 8 {
						t.Errorf("%d changes in ten minutes at rest", resizes)
					}
				})
			}
		}
	}
}

// settledKnee is a knee that holds the right limit of a service.
func settledKnee(t *testing.T, p *simService, cfg Knee) (*knee, int) {
	t.Helper()
	k := kneeOf(t, cfg)
	limit, _, _ := p.run(t, k, 4, time.Minute)
	for range 1000 {
		if k.mode == holding {
			return k, limit
		}
		limit = k.Observe(p.window(limit)).Limit
	}
	t.Fatalf("never held a limit; it is %d", limit)
	return nil, 0
}

// A pause of the process for two and a half seconds is no evidence of anything.
func TestKneeIgnoresStalls(t *testing.T) {
	for _, loss := range []float64{0, 0.02} {
		p := &simService{users: 100, slots: 20, took: 20 * time.Millisecond, loss: loss}
		k, limit := settledKnee(t, p, Knee{ProbeAfter: time.Hour})
		for n := range 20 {
			p.stands = true
			if _, _, resizes := p.run(t, k, limit, 2500*time.Millisecond); resizes > 0 {
				t.Fatalf("stall %d changed the limit", n)
			}
			p.stands = false
			if _, _, resizes := p.run(t, k, limit, time.Minute); resizes > 0 {
				t.Fatalf("the limit was changed after stall %d", n)
			}
		}
	}
}

// TestKneeFollowsAChange that shows in its windows at once. An increase of
// the possible throughput does not show, and is found by a probe.
func TestKneeFollowsAChange(t *testing.T) {
	p := &simService{users: 400, slots: 50, took: 20 * time.Millisecond, loss: 0.005}
	k, limit := settledKnee(t, p, Knee{})
	for _, c := range []struct {
		slots  int
		within time.Duration
	}{{10, 3 * time.Minute}, {80, 16 * time.Minute}, {20, 3 * time.Minute}} {
		p.slots = c.slots
		limit, _, _ = p.run(t, k, limit, c.within)
		if limit < c.slots*90/100 || limit > c.slots*130/100 {
			t.Errorf("limit %d for %d slots", limit, c.slots)
		}
	}
}

// TestKneeForgetsNothingInQuiet: the result of a search outlives a quiet night: a limit
// that does not bind gives no evidence.
func TestKneeForgetsNothingInQuiet(t *testing.T) {
	p := &simService{users: 100, slots: 20, took: 20 * time.Millisecond, loss: 0.01}
	k, limit := settledKnee(t, p, Knee{ProbeAfter: time.Hour})
	for _, users := range []int{0, 1, 3} {
		p.users = users
		if _, _, resizes := p.run(t, k, limit, 2*time.Hour); resizes > 0 {
			t.Errorf("%d users: %d changes", users, resizes)
		}
		p.users = 100
		if _, _, resizes := p.run(t, k, limit, time.Minute); resizes > 0 {
			t.Errorf("back from %d users: %d changes", users, resizes)
		}
	}
}

// TestKneeFollowsDemand down when it is steady, and takes it back at once.
func TestKneeFollowsDemand(t *testing.T) {
	p := &simService{users: 400, slots: 60, took: 20 * time.Millisecond, loss: 0.01}
	k, proven := settledKnee(t, p, Knee{ProbeAfter: time.Hour})
	p.users = 12
	limit, _, _ := p.run(t, k, proven, 25*time.Second)
	if limit > 12 {
		t.Errorf("%d of %d for 12 users", limit, proven)
	}
	p.users = 400 // while a smaller limit is on trial
	if limit, _, _ = p.run(t, k, limit, 5*time.Second); limit != proven {
		t.Errorf("five seconds after the load came back: %d, not %d", limit, proven)
	}
	p.users = 12
	limit, _, _ = p.run(t, k, limit, 5*time.Minute)
	p.users = 400
	if limit, _, _ = p.run(t, k, limit, 500*time.Millisecond); limit != proven {
		t.Errorf("a window after the load came back: %d, not %d", limit, proven)
	}
}

// A group that may have half of the limit needs twice the limit, and gets it.
func TestKneeWithShares(t *testing.T) {
	p := &simService{users: 400, slots: 20, took: 20 * time.Millisecond, loss: 0.01, share: 2}
	limit, _, _ := p.run(t, kneeOf(t, Knee{}), 2, 2*time.Minute)
	if limit < 38 || limit > 50 {
		t.Errorf("limit %d, of which half is for 20 slots", limit)
	}
}

func TestKneeStaysInItsLimits(t *testing.T) {
	p := &simService{users: 400, slots: 100, took: 20 * time.Millisecond}
	if limit, _, _ := p.run(t, kneeOf(t, Knee{Max: 30}), 4, time.Minute); limit != 30 {
		t.Errorf("limit %d, at most 30", limit)
	}
	p.slots = 2
	if limit, _, _ := p.run(t, kneeOf(t, Knee{Min: 8}), 16, time.Minute); limit != 8 {
		t.Errorf("limit %d, at least 8", limit)
	}
	if d := kneeOf(t, Knee{Min: 8, Max: 30}).Observe(p.window(100)); d.Limit != 30 {
		t.Errorf("set to 100, at most 30: %+v", d)
	}
}

// No larger limit is tried when the processors are used up.
func TestKneeHeedsTheProcessors(t *testing.T) {
	for _, c := range []struct {
		cpu   float64
		grows bool
	}{{0.5, true}, {nan, true}, {inf, true}, {-1, true}, {0.95, false}, {1, false}} {
		p := &simService{users: 100, slots: 50, took: 20 * time.Millisecond, cpu: c.cpu}
		limit, _, _ := p.run(t, kneeOf(t, Knee{MaxCPU: 0.9}), 10, 5*time.Minute)
		if grew := limit > 10; grew != c.grows {
			t.Errorf("processors used to %v: limit from 10 to %d", c.cpu, limit)
		}
	}
}

func TestKneeGoesOnFromAnothersLimit(t *testing.T) {
	p := &simService{users: 100, slots: 20, took: 20 * time.Millisecond, loss: 0.01}
	k, _ := settledKnee(t, p, Knee{})
	d := k.Observe(p.window(60))
	if d.Limit != 60 || !strings.Contains(d.Why, "by someone else") {
		t.Errorf("%+v", d)
	}
	if limit, _, _ := p.run(t, k, 60, time.Minute); limit < 19 || limit > 25 {
		t.Errorf("then %d", limit)
	}
}

// TestKneeSaysWhy: the reasons name the numbers that led to the decision.
func TestKneeSaysWhy(t *testing.T) {
	p := &simService{users: 100, slots: 8, took: 20 * time.Millisecond}
	k := kneeOf(t, Knee{})
	limit := 4
	var said []string
	for range 60 {
		d := k.Observe(p.window(limit))
		if d.Why != "" {
			said = append(said, fmt.Sprintf("%d: %s", d.Limit, d.Why))
		}
		limit = d.Limit
	}
	got := strings.Join(said, "\n")
	for _, want := range []string{
		"8: trying 8 after 4: tasks wait",
		"instead of 4: 8 completes +100.0%, wanted was +11.0%; trying 16 after 8: tasks wait",
		"back to 8: 16 completes +0.0%, wanted was +11.0%",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("nobody said %q:\n%s", want, got)
		}
	}
}

func TestKneeRefusesNonsense(t *testing.T) {
	for _, cfg := range []Knee{
		{Period: -1},
		{Period: time.Microsecond},
		{Period: 19 * time.Millisecond},
		{Min: -1},
		{Max: -1},
		{Min: 5, Max: 4},
		{Min: 2000},
		{Max: MaxLimit + 1},
		{ProbeAfter: time.Millisecond},
		{ProbeAfter: -time.Hour},
		{MaxCPU: -0.1},
		{MaxCPU: 1.1},
		{MaxCPU: nan},
		{MaxCPU: inf},
	} {
		refused(t, fmt.Sprintf("%+v", cfg), func() (Optimizer, error) { return NewKnee(cfg) })
	}
}
