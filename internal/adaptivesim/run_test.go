package adaptivesim

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/txmgr/txmgr/adaptive"
)

// wanderer is an optimizer that chooses at random.
type wanderer struct {
	rand   *rand.Rand
	most   int
	window func(*adaptive.Window)
}

func (o *wanderer) Period() time.Duration { return 100 * time.Millisecond }

func (o *wanderer) Observe(w *adaptive.Window) adaptive.Decision {
	if o.window != nil {
		o.window(w)
	}
	return adaptive.Decision{Limit: 1 + o.rand.IntN(o.most), Why: "chance"}
}

func wander(most int) *wanderer {
	return &wanderer{rand: rand.New(rand.NewPCG(1, 2)), most: most}
}

func everything() *Scenario {
	return &Scenario{Name: "everything", Workload: twoPhase, Noise: 1, Stalls: []time.Duration{12 * time.Second}, Phases: []Phase{
		{Length: 10 * time.Second, Users: 30},
		{Length: 10 * time.Second, Users: 5, Rate: 50, Burst: 10, BurstFor: 2 * time.Second, BurstEvery: 4 * time.Second, Backlog: 500},
		{Length: 5 * time.Second},
		{Length: 10 * time.Second, Users: 60, Ramp: 5 * time.Second, Backend: 3},
	}}
}

// TestTheSameArgumentsGiveTheSame is invariant 1.
func TestTheSameArgumentsGiveTheSame(t *testing.T) {
	a, b := Run(everything(), wander(40), 5, 7), Run(everything(), wander(40), 5, 7)
	a.Scenario = b.Scenario
	if !reflect.DeepEqual(a, b) {
		t.Error("two runs with the same arguments differ")
	}
	c := Run(everything(), wander(40), 5, 8)
	if c.Phases[0].All.Count == a.Phases[0].All.Count && c.Phases[0].All.Sojourn == a.Phases[0].All.Sojourn {
		t.Error("another seed gives the same")
	}
}

// TestLimitAndCount looks at every step whether invariants 3 and 4 hold.
func TestLimitAndCount(t *testing.T) {
	var arrived uint64
	o := wander(40)
	o.window = func(w *adaptive.Window) { arrived += w.Arrived }
	s := newSimulation(everything(), o, 5, 3)
	s.begin()
	before := 0
	for s.step() {
		switch {
		case s.busy > s.limit && s.busy > before:
			t.Fatalf("at %.3f s a task started: %d run, the limit is %d", s.now, s.busy, s.limit)
		case s.busy < s.limit && s.queue.count > 0:
			t.Fatalf("at %.3f s %d tasks wait, while %d run and %d may", s.now, s.queue.count, s.busy, s.limit)
		case s.busy != len(s.processors.tasks)+len(s.backend.tasks):
			t.Fatalf("at %.3f s %d tasks run, %d of them in a station", s.now, s.busy, len(s.processors.tasks)+len(s.backend.tasks))
		}
		before = s.busy
	}
	arrived += s.window.w.Arrived
	var done uint64
	for i := range s.result.Phases {
		done += s.result.Phases[i].All.Count
	}
	if left := uint64(s.busy + s.queue.count); arrived != done+left || done < 1000 {
		t.Errorf("%d tasks arrived, %d ended, and %d are left", arrived, done, left)
	}
}

// TestWindows is invariant 5, as far as windows alone can show it.
func TestWindows(t *testing.T) {
	var windows int
	var end time.Duration
	var completed uint64
	var limitTime, bound time.Duration
	o := wander(40)
	o.window = func(w *adaptive.Window) {
		windows++
		length := w.Length()
		completed += w.Completed
		limitTime += time.Duration(w.Limit) * length
		bound += w.BoundTime
		const rounding = time.Microsecond
		for what, wrong := range map[string]bool{
			"windows do not follow each other":                          w.Start != end || (length-o.Period()).Abs() > rounding,
			"a histogram lacks a task":                                  w.Service.Count() != w.Completed || w.Sojourn.Count() != w.Completed,
			"tasks are there for longer than they run":                  w.Sojourn.Sum() < w.Service.Sum(),
			"more worked than there was time for":                       w.BusyTime > time.Duration(w.BusyMax)*length+rounding,
			"more waited than there was time for":                       w.QueueTime > time.Duration(w.QueueMax)*length+rounding,
			"the limit was binding for longer than the window was long": w.BoundTime > length+rounding || w.BoundTime > w.QueueTime,
			"tasks waited without the limit binding":                    w.QueueTime > 0 && w.BoundTime == 0,
			"more completed while bound than at all":                    w.BoundCompleted > w.Completed,
			"more processors were used than there are":                  !(w.CPU >= 0 && w.CPU < 1+1e-6),
			"more wait than ever did":                                   w.QueueLen > w.QueueMax,
		} {
			if wrong {
				t.Errorf("window until %v: %s: %+v", w.End, what, *w)
			}
		}
		end = w.End
	}
	r := Run(everything(), o, 5, 3)
	var done uint64
	var limit float64
	for i := range r.Phases {
		done += r.Phases[i].All.Count
		limit += r.Phases[i].Limit * r.Phases[i].Length.Seconds()
	}
	if windows < 348 || completed > done || completed+100 < done || bound == 0 {
		t.Errorf("%d windows with %d of %d tasks, bound for %v", windows, completed, done, bound)
	}
	if d := math.Abs(limit - limitTime.Seconds()); d > 0.02*limit {
		t.Errorf("the limit's integral is %.1f s in the result, %.1f s in the windows", limit, limitTime.Seconds())
	}
}

// TestNoiseIsTheSame is invariant 2: noise, and tasks, do not depend on the limit.
func TestNoiseIsTheSame(t *testing.T) {
	type moment struct {
		at, processors, backend float64
		pauses                  int
	}
	watch := func(limit int) (moments []moment, drawn []steps) {
		sc := *everything()
		w := *sc.Workload
		draw := w.draw
		w.draw = func(r *rand.Rand, p *Phase) steps {
			s := draw(r, p)
			drawn = append(drawn, s)
			return s
		}
		sc.Workload = &w
		sc.Phases = sc.Phases[:1]
		s := newSimulation(&sc, nil, limit, 11)
		s.begin()
		var last noise
		for s.step() {
			if n := s.noise; n.pauses != last.pauses || n.processors != last.processors {
				moments = append(moments, moment{s.now, n.processors, n.backend, n.pauses})
				last = n
			}
		}
		return moments, drawn
	}
	few, first := watch(3)
	many, second := watch(30)
	if !reflect.DeepEqual(few, many) || len(few) < 10 {
		t.Errorf("the noise of a small limit differs from that of a large one:\n%v\n%v", few, many)
	}
	if n := min(len(first), len(second)); n < 100 || !reflect.DeepEqual(first[:n], second[:n]) {
		t.Errorf("the first %d tasks of a small limit differ from those of a large one", n)
	}
}
