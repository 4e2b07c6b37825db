package hashbelt

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// makers are the three containers.
func makers[K comparable, V any]() []struct {
	name string
	make func() Container[K, V]
} {
	return []struct {
		name string
		make func() Container[K, V]
	}{
		{"map", NewMap[K, V]},
		{"list", NewMapList[K, V]},
		{"slice", NewMapSlice[K, V]},
	}
}

// objects returns what a container yields.
func objects[K comparable, V any](c Container[K, V]) []object[K, V] {
	var all []object[K, V]
	for key, value := range c.All() {
		all = append(all, object[K, V]{key, value})
	}
	return all
}

// TestContainers compares the three containers with a plain slice in random histories. Places of
// removed objects are looked up as well.
func TestContainers(t *testing.T) {
	for _, m := range makers[int, int]() {
		t.Run(m.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { runContainer(t, m.make()) })
		})
	}
}

func runContainer(t *rapid.T, got Container[int, int]) {
	// More than a block, so that blocks are filled, emptied and given back.
	keys := rapid.IntRange(1, 3*blockLen).Draw(t, "keys")
	key := rapid.IntRange(0, keys-1)
	want, places := newModelContainer[int, int](), map[int]uint64{}
	put := func(k, v int) {
		if _, ok := want.Get(k, 0); ok {
			return
		}
		places[k] = got.Put(k, v)
		want.Put(k, v)
	}
	remove := func(k int) {
		v, ok := got.Remove(k, places[k])
		if w, there := want.Remove(k, 0); v != w || ok != there {
			t.Fatalf("Remove(%d, %d) = %d, %v; want %d, %v", k, places[k], v, ok, w, there)
		}
	}
	t.Repeat(map[string]func(*rapid.T){
		"put": func(t *rapid.T) { put(key.Draw(t, "key"), rapid.Int().Draw(t, "value")) },
		"fill": func(*rapid.T) {
			for k := range keys {
				put(k, k)
			}
		},
		"get": func(t *rapid.T) {
			k := key.Draw(t, "key")
			v, ok := got.Get(k, places[k])
			if w, there := want.Get(k, 0); v != w || ok != there {
				t.Fatalf("Get(%d, %d) = %d, %v; want %d, %v", k, places[k], v, ok, w, there)
			}
		},
		"get absent": func(t *rapid.T) {
			k, place := -1, uint64(rapid.IntRange(0, 4*blockLen).Draw(t, "place"))
			if rapid.Bool().Draw(t, "one that is gone") {
				if k = key.Draw(t, "key"); want.(*modelContainer[int, int]).find(k) >= 0 {
					return
				}
			}
			if v, ok := got.Get(k, place); ok {
				t.Fatalf("Get(%d, %d) = %d; it is not there", k, place, v)
			}
			if v, ok := got.Remove(k, place); ok {
				t.Fatalf("Remove(%d, %d) = %d; it is not there", k, place, v)
			}
		},
		"remove": func(t *rapid.T) { remove(key.Draw(t, "key")) },
		"remove many": func(t *rapid.T) {
			from := key.Draw(t, "from")
			to := rapid.IntRange(from, keys-1).Draw(t, "to")
			for k := from; k <= to; k++ {
				remove(k)
			}
		},
		"": func(t *rapid.T) {
			if diff := cmp.Diff(objects(want), objects(got), visible); diff != "" || got.Len() != want.Len() {
				t.Fatalf("Len %d, want %d; All (-want +got):\n%s", got.Len(), want.Len(), diff)
			}
		},
	})
}

// TestContainersStop: a loop over a container can be left.
func TestContainersStop(t *testing.T) {
	for _, m := range makers[int, string]() {
		c := m.make()
		for k := range 200 {
			c.Put(k, fmt.Sprint(k))
		}
		var got []int
		for k := range c.All() {
			if got = append(got, k); k == 150 {
				break
			}
		}
		if len(got) != 151 || !slices.IsSorted(got) {
			t.Errorf("%s: %d keys before 150 came: %v", m.name, len(got), got)
		}
	}
}

// TestContainersForget: a removed object is not referenced any more, and its memory is used again
// or given back.
func TestContainersForget(t *testing.T) {
	const rounds, stay = 100_000, 40
	list := NewMapList[int, *int]().(*mapList[int, *int])
	slice := NewMapSlice[int, *int]().(*mapSlice[int, *int])
	for _, c := range []Container[int, *int]{list, slice} {
		places := make([]uint64, rounds)
		for k := range rounds {
			places[k] = c.Put(k, new(int))
			if k >= stay {
				c.Remove(k-stay, places[k-stay])
			}
		}
	}
	if n := list.cells.made; n > stay+2 {
		t.Errorf("the list has %d cells for %d objects", n, stay)
	}
	held := 0
	for _, block := range slice.objects.list {
		held += cap(block)
	}
	if held > 3*blockLen {
		t.Errorf("the slice holds %d places for %d objects", held, stay)
	}
	for i := range list.cells.made {
		if c := list.cells.at(i); c.value != nil && c.key < rounds-stay {
			t.Fatalf("the list still refers to the removed object %d", c.key)
		}
	}
	for _, block := range slice.objects.list {
		for _, o := range block {
			if o.value != nil && o.key < rounds-stay {
				t.Fatalf("the slice still refers to the removed object %d", o.key)
			}
		}
	}
}
