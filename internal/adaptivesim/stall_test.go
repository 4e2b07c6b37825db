//go:build !race

package adaptivesim

import (
	"testing"
	"time"
)

// TestStall pauses a settled pool for 2.5 s, fifty times in five workloads.
// Nothing may follow from it. A resize that also happens without the stalls, at about
// that time, is a probe that was due.
func TestStall(t *testing.T) {
	const after, about = 21 * time.Second, 30 * time.Second
	var stalls []time.Duration
	for i := range 10 {
		stalls = append(stalls, time.Duration(401+51*i)*time.Second)
	}
	count := 0
	for _, s := range []Scenario{
		{Workload: dbRead, Phases: fixed(100, 15*time.Minute)},
		{Workload: lockCont, Phases: fixed(100, 15*time.Minute)},
		{Workload: prime1m, Phases: fixed(100, 15*time.Minute)},
		{Workload: dbWrite, Phases: fixed(100, 15*time.Minute)},
		{Workload: dispatch, Phases: fixed(400, 15*time.Minute)},
	} {
		s.Name = s.Workload.Name + "/stalls"
		calm := Run(&s, knee(t), cores, 5)
		s.Stalls = stalls
		r := Run(&s, knee(t), cores, 5)
		for _, at := range stalls {
			count++
			for _, d := range r.Resizes() {
				if d.At >= at && d.At < at+after && !resizesAbout(calm, d.At, about) {
					t.Errorf("%s: a stall at %v is followed by a resize at %v from %d to %d\nwith stalls:\n%s\nwithout:\n%s",
						s.Name, at, d.At, d.From, d.To, r.Summary(40), calm.Summary(40))
				}
			}
		}
	}
	if count != 50 {
		t.Errorf("%d stalls, 50 wanted", count)
	}
}

func resizesAbout(r *Result, at, about time.Duration) bool {
	for _, d := range r.Resizes() {
		if (d.At - at).Abs() <= about {
			return true
		}
	}
	return false
}
