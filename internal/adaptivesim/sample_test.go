package adaptivesim

import (
	"reflect"
	"testing"
	"time"
)

// TestSamples adds the pieces of a run up to the run, and compares it with the same run
// without them: sampling changes nothing.
func TestSamples(t *testing.T) {
	plain, looked := everything(), everything()
	looked.Sample = 3 * time.Second
	a, b := Run(plain, wander(40), 5, 7), Run(looked, wander(40), 5, 7)
	if !reflect.DeepEqual(a.Phases, b.Phases) || !reflect.DeepEqual(a.Resizes(), b.Resizes()) || len(a.Samples) != 0 {
		t.Errorf("a run with samples differs from the same without, which has %d", len(a.Samples))
	}
	// Phases end at 10, 20, 25 and 35 s, pieces at all multiples of 3 s and there.
	if len(b.Samples) != 15 {
		t.Errorf("%d samples, want 15", len(b.Samples))
	}
	completed := make([]uint64, len(b.Phases))
	var end time.Duration
	for _, s := range b.Samples {
		p := &b.Phases[s.Phase]
		if s.From != end || s.To <= s.From || s.From < p.Start || s.To > p.Start+p.Length {
			t.Errorf("a piece from %v to %v of the phase from %v on, after one that ended at %v", s.From, s.To, p.Start, end)
		}
		if (s.Completed > 0) != (s.Mean > 0) || s.P99 < s.Mean/2 {
			t.Errorf("%d tasks took %v on average, 99 of 100 at most %v", s.Completed, s.Mean, s.P99)
		}
		end = s.To
		completed[s.Phase] += s.Completed
	}
	for i, n := range completed {
		if n != b.Phases[i].All.Count {
			t.Errorf("phase %d: %d tasks in the pieces, %d in the phase", i+1, n, b.Phases[i].All.Count)
		}
	}
	if end != 35*time.Second {
		t.Errorf("the last piece ends at %v", end)
	}
}
