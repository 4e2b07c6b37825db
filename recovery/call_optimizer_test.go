package recovery

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/txn"
)

func choiceOf(t testing.TB, text string) OptimizerSpec {
	t.Helper()
	c, err := ParseOptimizer(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestParseChoice(t *testing.T) {
	for _, text := range []string{"knee", "throughput", "mean", "p99", "fixed:1", "fixed:4096"} {
		if c := choiceOf(t, text); c.String() != text {
			t.Errorf("%s is read as %v", text, c)
		}
	}
	for _, text := range []string{"", "Knee", "fixed", "fixed:", "fixed:0", "fixed:-1", "fixed:+1", "fixed:01", "fixed:4097", "fixed:1 ", "custom", "fixed:99999999999999999999"} {
		if c, err := ParseOptimizer(text); !errors.Is(err, txn.ErrInvalid) {
			t.Errorf("%q is read as %v: %v", text, c, err)
		}
	}
}

// TestStormOfEachChoice: in a storm each optimizer goes beyond the 16 calls that it begins with,
// to what the participant can do, and says why; a fixed number stays. All are done before 16
// calls at once would be, which takes 12.5 s.
func TestStormOfEachChoice(t *testing.T) {
	for _, text := range []string{"knee", "throughput", "mean", "p99", "fixed:16", "fixed:32"} {
		synctest.Test(t, func(t *testing.T) {
			took, r := stormOf(10_000, 32, 20*time.Millisecond).burst(t, Config{OptimizerSpec: choiceOf(t, text)}, time.Minute)
			h := r.Health("one")
			t.Logf("%-10s %v, limit %d, %d raised, %d lowered", text, took, h.Limit, h.Raised, h.Lowered)
			for _, d := range r.Decisions("one") {
				t.Logf("%5.1fs  %3d to %3d: %s", d.At.Sub(r.life.epoch).Seconds(), d.From, d.To, d.Why)
			}
			fixed := text == "fixed:16" || text == "fixed:32"
			switch {
			case h.Optimizer != text:
				t.Errorf("%s is called %s", text, h.Optimizer)
			case fixed && len(r.Decisions("one")) > 0:
				t.Errorf("%s has decided something", text)
			case !fixed && (h.Limit < 22 || h.Limit > 50 || took > 9*time.Second || h.Raised == 0 || h.Last.Why == ""):
				t.Errorf("%s ends at %d after %v, where 32 is best", text, h.Limit, took)
			}
		})
	}
}

// TestChoiceChanges: a spec that changes while there is work applies from then on, and no more
// calls are under way than it allows.
func TestChoiceChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var chosen atomic.Pointer[OptimizerSpec]
		set := func(text string) { c := choiceOf(t, text); chosen.Store(&c) }
		set("fixed:8")
		s := stormOf(1000, 32, 20*time.Millisecond)
		r := begin(t, Config{OptimizerFor: func(name string) (OptimizerSpec, bool) { return *chosen.Load(), name == "one" }}, s)
		ids := make([]txn.ID, s.n)
		for k := range ids {
			ids[k] = idOf(k + 1)
		}
		r.Add(ids...)
		sleep(t.Context(), time.Second+7*time.Millisecond) // between the ends of calls
		one := s.parts["one"]
		if h := r.Health("one"); one.running.Load() != 8 || h.Limit != 8 || h.Optimizer != "fixed:8" {
			t.Errorf("%d calls under way, %+v", one.running.Load(), h)
		}
		set("fixed:3")
		sleep(t.Context(), time.Second+7*time.Millisecond) // between the ends of calls
		if h := r.Health("one"); one.running.Load() != 3 || h.Limit != 3 || h.Optimizer != "fixed:3" {
			t.Errorf("%d calls under way, %+v", one.running.Load(), h)
		}
		set("throughput")
		<-one.done
		if h := r.Health("one"); h.Optimizer != "throughput" || h.Limit < 16 || r.Health("two").Optimizer != "knee" {
			t.Errorf("%+v", h)
		}
	})
}
