package hashbelt

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/txmgr/txmgr/timeout"
)

// fataler is a test, or one of the random ones.
type fataler interface {
	Helper()
	Fatal(args ...any)
}

func newRing(t fataler, containers int, now timeout.Tick, fresh func() Container[int, int]) *Ring[int, int] {
	t.Helper()
	r, err := NewRing(containers, now, fresh)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// dump is the observable state of a ring: its time, and each object with its end.
type dump struct {
	Now, Next timeout.Tick
	Some      bool
	Ends      []timeout.Tick
	Objects   [][]object[int, int]
}

func dumpOf(r *Ring[int, int]) dump {
	d := dump{Now: r.Now()}
	d.Next, d.Some = r.Next()
	for end, c := range r.Containers() {
		d.Ends = append(d.Ends, end)
		d.Objects = append(d.Objects, objects(c))
	}
	return d
}

// rebuilt makes a ring from a snapshot of another.
func rebuilt(t fataler, d dump, containers int, fresh func() Container[int, int]) *Ring[int, int] {
	r := newRing(t, containers, d.Now, fresh)
	for i, end := range d.Ends {
		for _, o := range d.Objects[i] {
			if err := r.Add(o.key, o.value, end); err != nil {
				t.Fatal(err)
			}
		}
	}
	return r
}

var visible = cmp.AllowUnexported(object[int, int]{})

// TestRingRebuilt drives three rings with one random history: one goes on, one is rebuilt from its
// snapshot now and then, and one has other containers. Their results are equal, which is invariant
// 8. It jumps and takes containers off early, which belts do not.
func TestRingRebuilt(t *testing.T) {
	for range 10 {
		rapid.Check(t, rebuildHistory)
	}
}

func rebuildHistory(t *rapid.T) {
	containers := rapid.SampledFrom([]int{1, 2, 5, 63, 64, 65, 200}).Draw(t, "containers")
	starts := []timeout.Tick{0, 3, math.MaxUint32 - 2, 1 << 40, math.MaxUint64 - 100}
	start := rapid.SampledFrom(starts).Draw(t, "start")
	m := rapid.SampledFrom(makers[int, int]()).Draw(t, "container")
	rings := []*Ring[int, int]{
		newRing(t, containers, start, m.make),
		newRing(t, containers, start, m.make),
		newRing(t, containers, start, newModelContainer[int, int]),
	}
	key, value := rapid.IntRange(0, 20), 0
	end := rapid.Custom(func(t *rapid.T) timeout.Tick {
		return rings[0].Now() + timeout.Tick(rapid.IntRange(0, containers+1).Draw(t, "ahead"))
	})
	alike := func(do func(r *Ring[int, int]) any) {
		want := do(rings[2])
		for i, r := range rings[:2] {
			if diff := cmp.Diff(want, do(r), visible); diff != "" {
				t.Fatalf("ring %d at %d (-want +got):\n%s", i, r.Now(), diff)
			}
		}
	}
	taken := func(c Container[int, int]) any {
		if c == nil {
			return "nothing"
		}
		return objects(c)
	}
	t.Repeat(map[string]func(*rapid.T){
		"add": func(t *rapid.T) {
			k, e := key.Draw(t, "key"), end.Draw(t, "end")
			value++
			alike(func(r *Ring[int, int]) any { return r.Add(k, value, e) == nil })
		},
		"add new": func(t *rapid.T) {
			k, e := key.Draw(t, "key"), end.Draw(t, "end")
			if _, _, ok := rings[2].Get(k); ok {
				return
			}
			value++
			alike(func(r *Ring[int, int]) any {
				if r == rings[2] {
					return r.Add(k, value, e) == nil
				}
				return r.AddNew(k, value, e) == nil
			})
		},
		"put": func(t *rapid.T) {
			k, e := key.Draw(t, "key"), end.Draw(t, "end")
			value++
			alike(func(r *Ring[int, int]) any { return r.Put(k, value, e) == nil })
		},
		"get": func(t *rapid.T) {
			k := key.Draw(t, "key")
			alike(func(r *Ring[int, int]) any { v, e, ok := r.Get(k); return []any{v, ok, ok && e > r.Now()} })
		},
		"move": func(t *rapid.T) {
			k, e := key.Draw(t, "key"), end.Draw(t, "end")
			alike(func(r *Ring[int, int]) any { v, ok := r.Move(k, e); return []any{v, ok} })
		},
		"remove": func(t *rapid.T) {
			k := key.Draw(t, "key")
			alike(func(r *Ring[int, int]) any { v, ok := r.Remove(k); return []any{v, ok} })
		},
		"rotate": func(*rapid.T) {
			alike(func(r *Ring[int, int]) any { return taken(r.Rotate()) })
		},
		"jump": func(t *rapid.T) {
			to := rings[0].end(rapid.IntRange(0, 3*containers).Draw(t, "by"))
			to -= min(to, rapid.SampledFrom([]timeout.Tick{0, 0, 0, 5}).Draw(t, "back"))
			alike(func(r *Ring[int, int]) any {
				var all []any
				for gone := r.Advance(to); gone != nil; gone = r.Advance(to) {
					all = append(all, r.Now(), objects(gone))
				}
				return all
			})
		},
		"take first": func(*rapid.T) {
			alike(func(r *Ring[int, int]) any { return taken(r.TakeFirst()) })
		},
		"rebuild": func(*rapid.T) {
			rings[1] = rebuilt(t, dumpOf(rings[1]), containers, m.make)
		},
		"": func(*rapid.T) {
			alike(func(r *Ring[int, int]) any { return dumpOf(r) })
			alike(func(r *Ring[int, int]) any { return r.Len() })
			for _, r := range rings {
				if err := r.check(); err != nil {
					t.Fatal(err)
				}
			}
		},
	})
}

// TestRingEnds: an object falls off at the end that it was added with, for every end that a ring has; others are refused.
func TestRingEnds(t *testing.T) {
	const containers = 130
	for _, start := range []timeout.Tick{0, 7, math.MaxUint32 - 60} {
		r := newRing(t, containers, start, nil)
		for k := 1; k <= containers; k++ {
			if err := r.Add(k, 0, start+timeout.Tick(k)); err != nil {
				t.Fatal(err)
			}
		}
		for _, end := range []timeout.Tick{0, start, start + containers + 1, math.MaxUint64} {
			if err := r.Add(0, 0, end); !errors.Is(err, ErrEnd) {
				t.Errorf("Add with end %d at %d: %v, want ErrEnd", end, start, err)
			}
			if err := r.AddNew(0, 0, end); !errors.Is(err, ErrEnd) || r.Len() != containers {
				t.Errorf("AddNew with end %d at %d: %v, want ErrEnd", end, start, err)
			}
		}
		for end := range r.Containers() {
			if end != start+1 {
				t.Errorf("the first container ends at %d, want %d", end, start+1)
			}
			break
		}
		for k := 1; k <= containers; k++ {
			if next, ok := r.Next(); !ok || next != start+timeout.Tick(k) {
				t.Fatalf("Next = %d, %v; want %d", next, ok, start+timeout.Tick(k))
			}
			if diff := cmp.Diff([]object[int, int]{{key: k}}, objects(r.Rotate()), visible); diff != "" {
				t.Fatalf("rotation %d (-want +got):\n%s", k, diff)
			}
		}
		if next, ok := r.Next(); ok || r.Len() != 0 || r.Rotate() != nil {
			t.Errorf("an empty ring has %d objects and something next at %d", r.Len(), next)
		}
	}
}

// TestRingEndOfTime: a ring at the last tick refuses objects and goes nowhere.
func TestRingEndOfTime(t *testing.T) {
	r := newRing(t, 5, math.MaxUint64-2, nil)
	if err := r.Add(1, 1, r.Front()); err != nil || r.Front() != math.MaxUint64 {
		t.Fatalf("Add with end %d: %v", r.Front(), err)
	}
	if gone := r.Advance(math.MaxUint64); gone == nil || r.Now() != math.MaxUint64 {
		t.Fatalf("Advance took %v off and came to %d", gone, r.Now())
	}
	if err := r.Add(2, 2, r.Front()); !errors.Is(err, ErrEnd) || r.Rotate() != nil || r.Now() != math.MaxUint64 {
		t.Errorf("Add at the end of time: %v, want ErrEnd; Now %d", err, r.Now())
	}
}

// TestRingYear: advancing over a year costs a call for each container that holds something.
func TestRingYear(t *testing.T) {
	const year = 365 * 24 * 3600 * 10
	r := newRing(t, 1000, 0, nil)
	for k := range 10 {
		if err := r.Add(k, 0, timeout.Tick(100*k+1)); err != nil {
			t.Fatal(err)
		}
	}
	calls := 0
	for gone := r.Advance(year); gone != nil; gone = r.Advance(year) {
		calls++
	}
	if calls != 10 || r.Now() != year || r.Len() != 0 {
		t.Errorf("%d containers came off, want 10; now at %d with %d objects", calls, r.Now(), r.Len())
	}
	if n := len(r.index.young) + len(r.index.old); n != 0 {
		t.Errorf("the index holds %d keys of last year", n)
	}
}

// TestIndexForgetsWhatIsTaken: the owner of a bounded number of objects has an index of about as
// many, however long the belt is.
func TestIndexForgetsWhatIsTaken(t *testing.T) {
	const containers, each, kept = 10_000, 10, 100
	r := newRing(t, containers, 0, NewMapSlice[int, int])
	most := 0
	for k := range containers * each / 2 {
		if k%each == 0 {
			r.Rotate()
		}
		if err := r.Add(k, k, r.Front()); err != nil {
			t.Fatal(err)
		}
		for r.Len() > kept && r.TakeFirst() != nil {
		}
		most = max(most, len(r.index.young)+len(r.index.old))
		if _, _, ok := r.Get(max(k-kept/2, 0)); !ok {
			t.Fatalf("%d is gone, of %d", k-kept/2, r.Len())
		}
	}
	if err := r.check(); err != nil {
		t.Error(err)
	}
	if most > 2*(kept+each) {
		t.Errorf("the index held %d keys, of %d objects", most, kept)
	}
}

// TestRingTakeFirst: containers come off before their time, but for the front one, and what was in them can be added again.
func TestRingTakeFirst(t *testing.T) {
	r := newRing(t, 4, 10, nil)
	for k := range 4 {
		if err := r.Add(k, k, timeout.Tick(11+k)); err != nil {
			t.Fatal(err)
		}
	}
	for k := range 3 {
		if gone := r.TakeFirst(); gone == nil || gone.Len() != 1 || r.Now() != 10 || r.Len() != 3-k {
			t.Fatalf("TakeFirst %d took %v; %d are left at %d", k, gone, r.Len(), r.Now())
		}
		if _, _, ok := r.Get(k); ok {
			t.Errorf("%d is still there", k)
		}
		if _, ok := r.Remove(k); ok {
			t.Errorf("%d was removed", k)
		}
	}
	if gone := r.TakeFirst(); gone != nil {
		t.Errorf("TakeFirst took the front container: %v", objects(gone))
	}
	if err := r.Add(0, 100, 11); err != nil {
		t.Error(err)
	}
	if v, end, ok := r.Get(0); v != 100 || end != 11 || !ok {
		t.Errorf("Get = %d, %d, %v", v, end, ok)
	}
}

// TestBackward: the containers in the reverse order of their ends, from any end on.
func TestBackward(t *testing.T) {
	r, err := NewRing[int, int](10, 100, nil)
	if err != nil {
		t.Fatal(err)
	}
	for n, end := range []timeout.Tick{101, 104, 104, 109, 110} {
		if err := r.Add(n, n, end); err != nil {
			t.Fatal(err)
		}
	}
	for last, want := range map[timeout.Tick][]timeout.Tick{
		r.Front(): {110, 109, 104, 101}, math.MaxUint64: {110, 109, 104, 101}, 108: {104, 101}, 104: {104, 101}, 101: {101}, 100: nil, 0: nil,
	} {
		var got []timeout.Tick
		for end, c := range r.Backward(last) {
			got = append(got, end)
			if c.Len() == 0 {
				t.Errorf("an empty container ends at %d", end)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("back from %d: %v; want %v", last, got, want)
		}
	}
	for range r.Backward(110) {
		break
	}
}
