package costa

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/adaptive"
)

// atRate is a window with so many completions in a second.
func atRate(limit, rate int) *adaptive.Window {
	return windowOf(limit, uint32(10*rate), 20*time.Millisecond)
}

// throughputOf returns the optimizer with its state accessible.
func throughputOf(t *testing.T, s Config) *throughput {
	t.Helper()
	return newOptimizer(t, "T", s).(*throughput)
}

// Row 2: a fall of throughput is looked up in every phase, whatever is locked.
func TestLookupInEveryPhase(t *testing.T) {
	for _, strict := range []bool{true, false} {
		for lead := range 12 {
			o := throughputOf(t, Config{Strict: strict})
			limit := 31
			for range 2 + lead {
				limit = o.Observe(atRate(limit, 300)).Limit
			}
			o.table = []row{{1, 10, 1}, {21, 200, 1}, {31, 300, 1}}
			want := 21
			if strict && o.up.open() { // the step of the phase comes on top
				want = map[phase]int{inc: 31, incCheck: 11}[o.phase]
			}
			if got := o.Observe(atRate(limit, 150)).Limit; got != want {
				t.Errorf("strict %v, after %d windows: %d, not %d", strict, lead, got, want)
			}
		}
	}
}

// Row 3: the last row is never found, and if none fits the size stays.
func TestLookupEndsBeforeTheLastRow(t *testing.T) {
	o := throughputOf(t, Config{})
	for _, c := range []struct {
		table []row
		rate  float64
		size  int
		found bool
	}{
		{nil, 10, 0, false},
		{[]row{{1, 100, 1}}, 10, 0, false},
		{[]row{{1, 100, 1}, {11, 200, 1}}, 150, 1, true},
		{[]row{{1, 100, 1}, {11, 200, 1}}, 151, 0, false},
		{[]row{{1, 100, 1}, {11, 200, 1}, {21, 300, 1}}, 250, 11, true},
		{[]row{{1, 100, 1}, {11, 200, 1}, {21, 300, 1}}, 300, 0, false},
	} {
		o.table = c.table
		if size, found := o.lookup(c.rate); size != c.size || found != c.found {
			t.Errorf("%v of %v: %d %v", c.rate, c.table, size, found)
		}
	}
	o = throughputOf(t, Config{})
	o.Observe(atRate(31, 300))
	o.phase, o.table = incCheck, []row{{1, 10, 1}, {11, 20, 1}}
	if d := o.Observe(atRate(31, 200)); d.Limit != 31 {
		t.Errorf("no row fits, yet %+v", d)
	}
}

// Row 4: the table is sorted by size; as published, by first use. It has no size below 1.
func TestOrderOfTheTable(t *testing.T) {
	for _, strict := range []bool{true, false} {
		o := throughputOf(t, Config{Strict: strict})
		for _, size := range []int{41, 41, 21, 1, 61, 21, 0, -7} {
			o.Observe(atRate(size, 100))
		}
		var sizes []int
		for _, r := range o.table {
			sizes = append(sizes, r.size)
		}
		want := []int{1, 21, 41, 61}
		if strict {
			want = []int{41, 21, 1, 61}
		}
		if diff := cmp.Diff(want, sizes); diff != "" {
			t.Errorf("strict %v (-want +got):\n%s", strict, diff)
		}
	}
}

// Row 5: a row is the mean of all its windows.
// Row 6: they are those of the size that was in force, not of the one decided on.
// Row 15: and it is never cleared.
func TestRowsAreMeans(t *testing.T) {
	o := throughputOf(t, Config{Strict: true})
	for _, rate := range []int{100, 200, 600} {
		if d := o.Observe(atRate(1, rate)); rate == 100 && d.Limit != 11 {
			t.Fatalf("%+v", d)
		}
	}
	want := []row{{1, 300, 3}}
	if diff := cmp.Diff(want, o.table, cmp.AllowUnexported(row{})); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	for range 1000 {
		o.Observe(atRate(1, 300))
	}
	if r := o.table[0]; r.count != 1003 || r.rate < 299.9 || r.rate > 300.1 {
		t.Errorf("after a thousand windows: %+v", o.table)
	}
}

// Row 7: a fall of throughput may lead to a larger size.
// Row 8: and to nothing else, but as published to the step of the phase as well.
func TestLookupMayGrow(t *testing.T) {
	for _, c := range []struct {
		strict bool
		phase  phase
		want   int
		open   bool
	}{
		{false, inc, 21, true},
		{false, incCheck, 21, true},
		{true, inc, 31, true},       // found 21, and a step up
		{true, incCheck, 11, false}, // found 21, and the fall is no gain: a step down, and the lock
	} {
		o := throughputOf(t, Config{Strict: c.strict})
		o.Observe(atRate(11, 450))
		o.Observe(atRate(11, 450))
		o.table = []row{{1, 100, 1}, {11, 200, 1}, {21, 300, 1}, {31, 500, 1}}
		o.phase, o.probed, o.up = c.phase, 1, lock{}
		d := o.Observe(atRate(11, 380))
		if d.Limit != c.want || o.up.open() != c.open || o.probed != 0 && !c.strict {
			t.Errorf("strict %v, phase %v: %+v, open %v, probed %d", c.strict, c.phase, d, o.up.open(), o.probed)
		}
	}
}

// Row 9: a step that would lead below the minimum, or above the maximum, is not taken
// at all.
func TestStepsAreNotCutShort(t *testing.T) {
	for _, strict := range []bool{true, false} {
		o := newOptimizer(t, "M", Config{Strict: strict, Min: 4, Max: 36}).(*latency)
		for _, c := range []struct{ size, up, down int }{{4, 14, 4}, {13, 23, 13}, {14, 24, 4}, {26, 36, 16}, {27, 27, 17}, {36, 36, 26}} {
			if up, down := o.grow(c.size), o.shrink(c.size); up != c.up || down != c.down {
				t.Errorf("from %d: up to %d, down to %d", c.size, up, down)
			}
		}
	}
}

// Row 14: when nothing completes the size goes to its minimum, unless that is switched
// off; and the window is not compared with, unless as published.
func TestIdle(t *testing.T) {
	for _, algorithm := range []string{"T", "M", "99P"} {
		for _, c := range []struct {
			name string
			Config
			want []int
		}{
			{"published", Config{Strict: true}, []int{31, 41, 1, 1}},
			{"meant", Config{}, []int{31, 31, 1, 1}},
			{"kept", Config{KeepIdle: true}, []int{31, 31, 31, 31}},
		} {
			limits := drive(newOptimizer(t, algorithm, c.Config), 31, 3, func(i, limit int) *adaptive.Window {
				return atRate(limit, []int{300, 0, 0}[i])
			})
			if diff := cmp.Diff(c.want, limits); diff != "" {
				t.Errorf("%s %s (-want +got):\n%s", algorithm, c.name, diff)
			}
		}
		// A probe whose window is empty is not kept.
		limits := drive(newOptimizer(t, algorithm, Config{KeepIdle: true}), 31, 4, func(i, limit int) *adaptive.Window {
			return atRate(limit, []int{300, 300, 0, 300}[i])
		})
		if diff := cmp.Diff([]int{31, 31, 41, 31, 31}, limits); diff != "" {
			t.Errorf("%s, empty probe (-want +got):\n%s", algorithm, diff)
		}
	}
}

// A manual change of the limit in the middle of a probe is final: the probe does not
// go back behind it.
func TestProbeInterruptedByAnOperator(t *testing.T) {
	for _, algorithm := range []string{"T", "M", "99P"} {
		o := newOptimizer(t, algorithm, Config{})
		limits := drive(o, 31, 2, func(_, limit int) *adaptive.Window { return atRate(limit, 300) })
		if limits[2] != 41 {
			t.Fatalf("%s: %v", algorithm, limits)
		}
		if d := o.Observe(atRate(71, 300)); d.Limit != 71 {
			t.Errorf("%s, set to 71 by hand: %+v", algorithm, d)
		}
	}
}

// Row 16: throughput is completions by the length of the window.
func TestRateIsOfTheWindow(t *testing.T) {
	o := throughputOf(t, Config{Strict: true})
	w := atRate(1, 100)
	w.Completed, w.End = 500, 5*time.Second
	o.Observe(w)
	if got := o.table[0].rate; got != 100 {
		t.Errorf("500 in 5 s are %v in a second", got)
	}
}

// Row 17: latency is from submission to end, waiting included.
func TestLatencyIncludesWaiting(t *testing.T) {
	for _, algorithm := range []string{"M", "99P"} {
		o := newOptimizer(t, algorithm, Config{})
		limits := drive(o, 31, 3, func(i, limit int) *adaptive.Window {
			w := windowOf(limit, 100, []time.Duration{100, 100, 50}[i]*time.Millisecond)
			w.Service = windowOf(limit, 100, []time.Duration{10, 10, 90}[i]*time.Millisecond).Sojourn
			return w
		})
		if diff := cmp.Diff([]int{31, 31, 41, 41}, limits); diff != "" {
			t.Errorf("%s (-want +got):\n%s", algorithm, diff)
		}
	}
}

// Row 18: a fall of exactly 10 % is not looked up, a gain of exactly 10 %, or 5 %, is
// one.
func TestThresholds(t *testing.T) {
	for _, strict := range []bool{true, false} {
		lead := []int{1000}
		if !strict {
			lead = []int{1000, 1000}
		}
		for _, c := range []struct{ rate, want int }{{1100, 41}, {1099, 31}} {
			rates := append(append([]int(nil), lead...), c.rate)
			limits := drive(newOptimizer(t, "T", Config{Strict: strict}), 31, len(rates), func(i, limit int) *adaptive.Window { return atRate(limit, rates[i]) })
			if got := limits[len(limits)-1]; got != c.want {
				t.Errorf("strict %v: throughput from 1000 to %d: %d", strict, c.rate, got)
			}
		}
		for _, c := range []struct{ ms, want int }{{950, 41}, {951, 31}} {
			all := append(append([]int(nil), lead...), c.ms)
			limits := drive(newOptimizer(t, "M", Config{Strict: strict}), 31, len(all), func(i, limit int) *adaptive.Window {
				return windowOf(limit, 100, time.Duration(all[i])*time.Millisecond)
			})
			if got := limits[len(limits)-1]; got != c.want {
				t.Errorf("strict %v: latency from 1000 to %d: %d", strict, c.ms, got)
			}
		}
		for _, c := range []struct{ rate, want int }{{900, 31}, {899, 1}} {
			o := throughputOf(t, Config{Strict: strict})
			for range lead {
				o.Observe(atRate(31, 1000))
			}
			o.phase, o.probed, o.table = incCheck, 0, []row{{1, 900, 1}, {31, 1000, 1}}
			o.up.close(6)
			if got := o.Observe(atRate(31, c.rate)).Limit; got != c.want {
				t.Errorf("strict %v: a fall from 1000 to %d: %d", strict, c.rate, got)
			}
		}
	}
}

// Row 19: the first window with load may be a part of one. As published, the first
// step is taken at its end, and judged by it.
func TestFirstWindow(t *testing.T) {
	for _, algorithm := range []string{"T", "M", "99P"} {
		rates := func(i, limit int) *adaptive.Window { return atRate(limit, []int{0, 10, 300, 300}[i]) }
		want := []int{1, 1, 11, 11}
		if algorithm != "T" { // no better latency
			want[3] = 1
		}
		if diff := cmp.Diff(want, drive(strict(t, algorithm), 1, 3, rates)); diff != "" {
			t.Errorf("%s, published (-want +got):\n%s", algorithm, diff)
		}
		if diff := cmp.Diff([]int{1, 1, 1, 11, 1}, drive(newOptimizer(t, algorithm, Config{}), 1, 4, rates)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", algorithm, diff)
		}
	}
}
