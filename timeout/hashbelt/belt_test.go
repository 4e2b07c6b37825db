package hashbelt

import (
	"errors"
	"math"
	"runtime"
	"testing"
)

// TestLifetime: an object falls off at the rotation that its lifetime says, and use changes that on an updating belt only.
func TestLifetime(t *testing.T) {
	for _, kind := range []Kind{Standard, Updating} {
		for _, m := range makers[int, int]() {
			const containers = 4
			h := &keep[int, int]{}
			b := newBelt(t, Config[int, int]{Kind: kind, Containers: containers, Container: m.make, Handler: h})
			put(t, b, 1, 0)
			for n := 1; n <= 3; n++ {
				if err := b.PutFor(-n, 0, n); err != nil {
					t.Fatal(err)
				}
			}
			used := 0
			for n := 1; len(h.gone) < 4; n++ {
				if b.Rotate(); n == 3 {
					if _, ok := b.Get(1); !ok {
						t.Fatalf("%v/%s: gone after 3 rotations of %d", kind, m.name, containers)
					}
					used = n
				}
				switch k := h.gone[len(h.gone)-1].key; {
				case n <= 3 && (len(h.gone) != n || k != -n):
					t.Fatalf("%v/%s: rotation %d expired %d", kind, m.name, n, k)
				case len(h.gone) == 4 && kind == Standard && n != containers:
					t.Errorf("%s: standard belt expired after %d rotations, want %d", m.name, n, containers)
				case len(h.gone) == 4 && kind == Updating && n != used+containers:
					t.Errorf("%s: updating belt expired after %d rotations, want %d", m.name, n, used+containers)
				}
			}
		}
	}
}

// TestPutFor refuses lifetimes that the belt does not have.
func TestPutFor(t *testing.T) {
	b := newBelt(t, Config[int, int]{Containers: 3})
	for _, n := range []int{math.MinInt, -1, 0, 4, math.MaxInt} {
		if err := b.PutFor(1, 1, n); !errors.Is(err, ErrEnd) || b.Len() != 0 {
			t.Errorf("PutFor %d rotations: %v", n, err)
		}
	}
}

// TestLimit: a full belt refuses new objects, and nothing else.
func TestLimit(t *testing.T) {
	for _, kind := range []Kind{Standard, Updating} {
		b := newBelt(t, Config[int, int]{Kind: kind, Containers: 2, Limit: 2})
		put(t, b, 1, 1)
		b.Rotate()
		put(t, b, 2, 2)
		if err := b.Put(3, 3); !errors.Is(err, ErrFull) || b.Len() != 2 {
			t.Errorf("%v belt: third Put: %v", kind, err)
		}
		if err := b.Put(2, 3); kind == Standard && !errors.Is(err, ErrKnown) || kind == Updating && err != nil {
			t.Errorf("%v belt: Put of a known key: %v", kind, err)
		}
		if b.Rotate() != 1 {
			t.Errorf("%v belt: nothing fell off", kind)
		}
		put(t, b, 3, 3)
	}
}

// TestKeys: a key that does not equal itself is refused, and one that cannot be compared leaves the belt as it was.
func TestKeys(t *testing.T) {
	for _, kind := range []Kind{Standard, Updating} {
		b, err := New(Config[any, int]{Kind: kind})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Put(math.NaN(), 1); !errors.Is(err, ErrKey) {
			t.Errorf("%v belt: Put of a NaN: %v, want ErrKey", kind, err)
		}
		for name, do := range map[string]func(key any){
			"Put":    func(key any) { _ = b.Put(key, 1) },
			"Get":    func(key any) { b.Get(key) },
			"Remove": func(key any) { b.Remove(key) },
		} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%v belt: %s of a slice did not panic, as a map does", kind, name)
					}
				}()
				do([]int{1})
			}()
		}
		for _, key := range []any{nil, 0, "", 0.0, struct{}{}} {
			if err := b.Put(key, 1); err != nil {
				t.Errorf("%v belt: Put of %v: %v", kind, key, err)
			}
			if _, ok := b.Get(key); !ok {
				t.Errorf("%v belt: %v is not there", kind, key)
			}
		}
		if err := b.ring.check(); err != nil || b.Len() != 5 {
			t.Errorf("%v belt: %d objects, %v", kind, b.Len(), err)
		}
	}
}

// TestAll: a loop over a belt meets an object that stays once, one that moves meanwhile once or
// twice, can be left, and ends though its body rotates and puts for ever.
func TestAll(t *testing.T) {
	const containers = 4
	fill := func() *Belt[int, int] {
		b := newBelt(t, Config[int, int]{Kind: Updating, Containers: containers})
		for key := range containers {
			if key > 0 {
				b.Rotate()
			}
			put(t, b, key, 0)
		}
		return b
	}
	b, met := fill(), map[int]int{}
	for key := range b.All() {
		met[key]++
		for k := range containers {
			b.Get(k)
		}
	}
	for key := range containers {
		if n := met[key]; n < 1 || n > 2 {
			t.Errorf("%d was met %d times", key, n)
		}
	}
	n := 0
	for range fill().All() {
		n++
		break
	}
	if n != 1 {
		t.Errorf("%d rounds of a loop that was left", n)
	}
	b, n = fill(), 0
	for key := range b.All() {
		if n++; n > 10*containers {
			t.Fatal("the loop does not end")
		}
		b.Get(key)
		b.Rotate()
		put(t, b, 100+n, 0)
	}
}

// TestIndexForgets: the size of the index is bounded by the objects that joined in two turns of the
// belt, though no expired object is ever deleted from it. Removed or cleared objects are not in it
// at all.
func TestIndexForgets(t *testing.T) {
	const containers, each = 5, 100
	b := newBelt(t, Config[int, int]{Containers: containers})
	held := func() int { return len(b.ring.index.young) + len(b.ring.index.old) }
	b.Rotate()
	for key := range 20 {
		put(t, b, key, 0)
		if key == 10 {
			for range containers - 1 {
				b.Rotate()
			}
		}
	}
	for key := range 20 {
		b.Remove(key)
	}
	if n := held(); n != 0 {
		t.Errorf("the index holds %d keys that were removed", n)
	}
	put(t, b, 1, 0)
	if b.Clear(); held() != 0 {
		t.Error("the index holds a key that was cleared")
	}
	most := 0
	for n := range 20 * containers {
		for k := range each {
			put(t, b, n*each+k, 0)
		}
		b.Rotate()
		most = max(most, held())
	}
	if most > 2*containers*each {
		t.Errorf("the index held %d keys, of %d that joined in two turns", most, 2*containers*each)
	}
	for range 2 * containers {
		b.Rotate()
	}
	if n := held(); n != 0 {
		t.Errorf("the index of an empty belt holds %d keys", n)
	}
}

// TestMemoryComesBack: a belt that was large and is empty keeps no memory, whatever its containers.
func TestMemoryComesBack(t *testing.T) {
	const count = 100_000
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for _, m := range makers[int, *[64]byte]() {
		b := newBelt(t, Config[int, *[64]byte]{Kind: Updating, Containers: 3, Container: m.make})
		before := heap()
		for key := range count {
			put(t, b, key, new([64]byte))
		}
		full := heap() - before
		for range 6 {
			b.Rotate()
		}
		if left := heap() - before; full < count*64 || left > full/100 {
			t.Errorf("%s: %d bytes with %d objects, %d when they are gone", m.name, full, count, left)
		}
		runtime.KeepAlive(b)
	}
}
