package latency

import (
	"math"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestReadAgainstAList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := New()
		var list []time.Duration
		var sum time.Duration
		for range rapid.IntRange(0, 50).Draw(t, "kinds") {
			d := time.Duration(math.Exp(rapid.Float64Range(0, math.Log(float64(longest))).Draw(t, "ln")))
			n := rapid.IntRange(0, 5).Draw(t, "times")
			h.Record(d, n)
			for range n {
				list = append(list, d)
				sum += d
			}
		}
		r := h.Read()
		if r.Count != uint64(len(list)) || math.Abs(r.Sum-sum.Seconds()) > 1e-6 || len(r.Buckets) != len(Bounds) {
			t.Fatalf("%+v of %v", r, list)
		}
		for _, bound := range Bounds {
			var least, most uint64 // a bucket around the bound may be on either side
			for _, d := range list {
				if d.Seconds() <= bound {
					least++
				}
				if d.Seconds() <= bound*1.008+finest.Seconds() {
					most++
				}
			}
			if n := r.Buckets[bound]; n < least || n > most {
				t.Errorf("%d were not longer than %v s, and not %d to %d", n, bound, least, most)
			}
		}
	})
}

func TestNonsenseAndManyGoroutines(t *testing.T) {
	h := New()
	h.Record(-time.Second, 1)
	h.Record(math.MaxInt64, 1)
	h.Record(time.Second, -1)
	if r := h.Read(); r.Count != 2 || r.Sum != longest.Seconds() || r.Buckets[.0001] != 1 || r.Buckets[60] != 1 {
		t.Errorf("%+v", r)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 1000 {
				h.Record(time.Duration(i)*time.Millisecond, 1)
				if i%100 == 0 {
					h.Read()
				}
			}
		})
	}
	wg.Wait()
	if r := h.Read(); r.Count != 4002 {
		t.Errorf("%d durations", r.Count)
	}
}
