package adaptivesim

import (
	"testing"
	"time"

	"github.com/txmgr/txmgr/adaptive"
)

func contender(t *testing.T, name string) adaptive.Optimizer {
	t.Helper()
	for _, c := range Contenders() {
		if c.Name == name {
			o, err := c.New()
			if err != nil {
				t.Fatal(err)
			}
			return o
		}
	}
	t.Fatalf("no contender has the name %q", name)
	return nil
}

func knee(t *testing.T) adaptive.Optimizer {
	t.Helper()
	return contender(t, nameKnee)
}

// TestCeilings shows how far the optimizers of the dissertation go when more is always
// better: ten workers more are 10 % of 100, and 5 % of 200, so that beyond these sizes
// no step is worth its threshold.
func TestCeilings(t *testing.T) {
	scales := &Workload{Name: "Scales", slots: unlimited, draw: call(0, 0.1, 0, 0)}
	s := &Scenario{Name: "Scales/fixed1000", Workload: scales, Phases: fixed(1000, 25*time.Minute)}
	for _, want := range []struct {
		name string
		size int
	}{{nameT, 101}, {nameM, 191}} {
		r := Run(s, contender(t, want.name), 1, 1)
		kept := 0
		for _, span := range r.spans(0) {
			if span.to-span.from > 25*time.Second { // longer than a step that is undone
				kept = max(kept, span.limit)
			}
		}
		if kept != want.size {
			t.Errorf("%s keeps %d workers at most, %d expected\n%s", want.name, kept, want.size, r.Summary(40))
		}
	}
	if r := Run(s, knee(t), cores, 1); r.Phases[0].Limit < 500 {
		t.Errorf("knee has %.0f workers on average, where 1000 would have something to do\n%s", r.Phases[0].Limit, r.Summary(40))
	}
}
