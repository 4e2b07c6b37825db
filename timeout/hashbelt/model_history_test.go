package hashbelt

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/txmgr/txmgr/timeout"
)

// keep is a handler that keeps its containers.
type keep[K comparable, V any] struct{ gone []object[K, V] }

func (h *keep[K, V]) Expire(_ *Belt[K, V], gone Container[K, V]) {
	h.gone = append(h.gone, objects(gone)...)
}

// TestModel compares belts of both kinds and all containers with the model in random histories, and
// checks everything after each step.
func TestModel(t *testing.T) {
	for _, kind := range []Kind{Standard, Updating} {
		for _, m := range makers[int, int]() {
			t.Run(kind.String()+"/"+m.name, func(t *testing.T) {
				for range 10 {
					rapid.Check(t, func(t *rapid.T) { runHistory(t, kind, m.make) })
				}
			})
		}
	}
}

// FuzzModel is TestModel with histories that the fuzzer finds.
func FuzzModel(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) {
		kind := Kind(rapid.IntRange(0, 1).Draw(t, "kind"))
		m := rapid.SampledFrom(makers[int, int]()).Draw(t, "container")
		runHistory(t, kind, m.make)
	}))
}

func runHistory(t *rapid.T, kind Kind, fresh func() Container[int, int]) {
	containers := rapid.IntRange(1, 6).Draw(t, "containers")
	got, want := &keep[int, int]{}, &keep[int, int]{}
	belt, err := New(Config[int, int]{Kind: kind, Containers: containers, Container: fresh, Handler: got})
	if err != nil {
		t.Fatal(err)
	}
	model := newModelBelt(kind, containers, newModelContainer[int, int])
	model.expire = func(gone Container[int, int]) { want.Expire(nil, gone) }
	key, value, n := rapid.IntRange(0, 9), 0, 0
	step := func(name string, b, w error) {
		if !errors.Is(b, w) {
			t.Fatalf("%s: %v, want %v", name, b, w)
		}
	}
	t.Repeat(map[string]func(*rapid.T){
		"put": func(t *rapid.T) {
			k := key.Draw(t, "key")
			value++
			step("Put", belt.Put(k, value), model.put(k, value))
		},
		"add": func(t *rapid.T) {
			k := key.Draw(t, "key")
			value++
			step("Add", belt.Add(k, value), model.putFor(k, value, containers, false))
		},
		"put for": func(t *rapid.T) {
			k, rotations := key.Draw(t, "key"), rapid.IntRange(1, containers).Draw(t, "rotations")
			value++
			step("PutFor", belt.PutFor(k, value, rotations), model.putFor(k, value, rotations, kind == Updating))
		},
		"get": func(t *rapid.T) {
			k := key.Draw(t, "key")
			v, ok := belt.Get(k)
			if w, there := model.get(k); v != w || ok != there {
				t.Fatalf("Get(%d) = %d, %v; want %d, %v", k, v, ok, w, there)
			}
		},
		"remove": func(t *rapid.T) {
			k := key.Draw(t, "key")
			v, ok := belt.Remove(k)
			if w, there := model.remove(k); v != w || ok != there {
				t.Fatalf("Remove(%d) = %d, %v; want %d, %v", k, v, ok, w, there)
			}
		},
		"rotate": func(t *rapid.T) {
			for range rapid.IntRange(1, 3).Draw(t, "times") {
				n++
				if b, w := belt.Rotate(), model.rotate(); b != w {
					t.Fatalf("Rotate = %d, want %d", b, w)
				}
			}
		},
		"clear": func(t *rapid.T) {
			if rapid.IntRange(0, 4).Draw(t, "chance") == 0 {
				belt.Clear()
				model.clear()
			}
		},
		"": func(t *rapid.T) {
			var all []object[int, int]
			for k, v := range belt.All() {
				all = append(all, object[int, int]{k, v})
			}
			compare(t, "All", all, model.all())
			compare(t, "expired", got.gone, want.gone)
			if belt.Len() != len(all) || belt.Now() != timeout.Tick(n) {
				t.Fatalf("Len, Now = %d, %d; want %d, %d", belt.Len(), belt.Now(), len(all), n)
			}
			if err := belt.ring.check(); err != nil {
				t.Fatal(err)
			}
			// The bound of the index: every key in both of its maps.
			if young, old := len(belt.ring.index.young), len(belt.ring.index.old); young > 10 || old > 10 {
				t.Fatalf("the index has %d and %d entries for 10 keys", young, old)
			}
		},
	})
}

func compare(t *rapid.T, what string, got, want []object[int, int]) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%s (-want +got):\n%s", what, cmp.Diff(want, got, cmp.AllowUnexported(object[int, int]{})))
	}
}
