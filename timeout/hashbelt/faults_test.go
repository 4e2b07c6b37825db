package hashbelt

import (
	"errors"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// These are the faults of the original by their numbers in the package doc, but for the first:
// races_test.go.

func newBelt[V any](t testing.TB, c Config[int, V]) *Belt[int, V] {
	t.Helper()
	b, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func put[V any](t testing.TB, b *Belt[int, V], key int, value V) {
	t.Helper()
	if err := b.Put(key, value); err != nil {
		t.Fatal(err)
	}
}

// TestFault2: an object lives for the rotation time that its owner has chosen, times the containers, also when the handler
// takes its time.
func TestFault2(t *testing.T) {
	for _, interval := range []time.Duration{time.Second, 10 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			start, ages := time.Now(), make(chan time.Duration, 2)
			b := newBelt(t, Config[int, string]{Containers: 5, Handler: Simple[int, string](func(int, string) {
				ages <- time.Since(start)
				<-time.After(interval * 7 / 10)
			})})
			if err := b.PutFor(4, "", 4); err != nil {
				t.Fatal(err)
			}
			put(t, b, 5, "")
			stop := make(chan struct{})
			var owner sync.WaitGroup
			owner.Go(func() {
				ticker := time.NewTicker(interval)
				defer ticker.Stop()
				for {
					select {
					case <-ticker.C:
						b.Rotate()
					case <-stop:
						return
					}
				}
			})
			for n := 4; n <= 5; n++ {
				if age := <-ages; age != time.Duration(n)*interval {
					t.Errorf("at an interval of %v object %d fell off after %v", interval, n, age)
				}
			}
			close(stop)
			owner.Wait()
		})
	}
}

// TestFault3: a belt is complete when New returns it.
func TestFault3(t *testing.T) {
	b := newBelt(t, Config[int, int]{})
	for range 6 {
		if n := b.Rotate(); n != 0 {
			t.Errorf("%d objects fell off an empty belt", n)
		}
	}
}

// TestFault4: after a handler that panicked the belt goes on.
func TestFault4(t *testing.T) {
	var seen []int
	b := newBelt(t, Config[int, int]{Containers: 2, Handler: Simple[int, int](func(key, _ int) {
		seen = append(seen, key)
		panic(key)
	})})
	for key := range 3 {
		put(t, b, key, 0)
		func() {
			defer func() {
				if v := recover(); (v != nil) != (key > 0) {
					t.Errorf("rotation %d panicked with %v", key, v)
				}
			}()
			b.Rotate()
		}()
	}
	if diff := cmp.Diff([]int{0, 1}, seen); diff != "" || b.Len() != 1 {
		t.Errorf("%d objects are left; expired (-want +got):\n%s", b.Len(), diff)
	}
}

// TestFault5: while a handler blocks, the belt is used, and rotated by others.
func TestFault5(t *testing.T) {
	blocked, release, seen := make(chan struct{}), make(chan struct{}), make(chan int, 2)
	b := newBelt(t, Config[int, int]{Containers: 1, Handler: Simple[int, int](func(key, _ int) {
		if key == 0 {
			close(blocked)
			<-release
		}
		seen <- key
	})})
	put(t, b, 0, 0)
	done := make(chan int)
	go func() { done <- b.Rotate() }()
	<-blocked
	put(t, b, 1, 0)
	if _, ok := b.Get(1); !ok || b.Len() != 1 {
		t.Error("the belt does not work while a handler blocks")
	}
	if n := b.Rotate(); n != 1 || <-seen != 1 {
		t.Errorf("%d objects fell off while a handler blocked, want object 1", n)
	}
	close(release)
	if n := <-done; n != 1 || <-seen != 0 {
		t.Errorf("%d objects fell off, want object 0", n)
	}
}

// TestFault6: a halted belt expires nothing, accepts nothing and holds nothing, also when it is
// halted again.
func TestFault6(t *testing.T) {
	for _, kind := range []Kind{Standard, Updating} {
		h := &keep[int, int]{}
		b := newBelt(t, Config[int, int]{Kind: kind, Containers: 2, Handler: h})
		put(t, b, 1, 1)
		b.Rotate()
		for range 2 {
			b.Halt()
			for _, err := range []error{b.Put(2, 2), b.PutFor(2, 2, 1), b.Add(2, 2)} {
				if !errors.Is(err, ErrHalted) {
					t.Errorf("%v belt: put after Halt: %v", kind, err)
				}
			}
			_, got := b.Get(1)
			_, removed := b.Remove(1)
			if n := b.Rotate(); n != 0 || got || removed || b.Len() != 0 || b.Now() != 1 {
				t.Errorf("%v belt after Halt: rotated %d, got %v, removed %v, holds %d at %d", kind, n, got, removed, b.Len(), b.Now())
			}
			b.Clear()
			for key := range b.All() {
				t.Errorf("%v belt holds %d after Halt", kind, key)
			}
		}
		if len(h.gone) != 0 {
			t.Errorf("%v belt expired %v after Halt", kind, h.gone)
		}
	}
}

// TestFault7: a nil value and a zero key are an object like any other.
func TestFault7(t *testing.T) {
	for _, m := range makers[int, *int]() {
		h := &keep[int, *int]{}
		b := newBelt(t, Config[int, *int]{Kind: Updating, Containers: 1, Container: m.make, Handler: h})
		put(t, b, 0, nil)
		if v, ok := b.Get(0); v != nil || !ok {
			t.Errorf("%s: Get = %v, %v", m.name, v, ok)
		}
		if b.Rotate(); len(h.gone) != 1 {
			t.Errorf("%s: %d objects fell off", m.name, len(h.gone))
		}
		put(t, b, 0, nil)
		if v, ok := b.Remove(0); v != nil || !ok || b.Len() != 0 {
			t.Errorf("%s: Remove = %v, %v", m.name, v, ok)
		}
	}
}

// TestFault8: putting a known key, or removing an unknown one, is reported.
func TestFault8(t *testing.T) {
	b := newBelt(t, Config[int, string]{})
	put(t, b, 1, "old")
	if err := b.Put(1, "new"); !errors.Is(err, ErrKnown) {
		t.Errorf("second Put: %v, want ErrKnown", err)
	}
	for _, want := range []bool{true, false} {
		if v, ok := b.Remove(1); ok != want || ok && v != "old" {
			t.Errorf("Remove = %q, %v; want the old object once", v, ok)
		}
	}
}

// TestFault9: a cleared object never comes to the handler, and the belt goes on.
func TestFault9(t *testing.T) {
	for _, m := range makers[int, int]() {
		h := &keep[int, int]{}
		b := newBelt(t, Config[int, int]{Containers: 3, Container: m.make, Handler: h})
		put(t, b, 1, 1)
		b.Rotate()
		put(t, b, 2, 2)
		b.Clear()
		if _, ok := b.Get(1); ok || b.Len() != 0 {
			t.Errorf("%s: %d objects after Clear", m.name, b.Len())
		}
		put(t, b, 2, 3)
		for range 3 {
			b.Rotate()
		}
		if diff := cmp.Diff([]object[int, int]{{2, 3}}, h.gone, visible); diff != "" {
			t.Errorf("%s: expired (-want +got):\n%s", m.name, diff)
		}
	}
}

// TestFault10: an object that is put twice is expired once; see also TestContainersForget.
func TestFault10(t *testing.T) {
	for _, m := range makers[int, int]() {
		h := &keep[int, int]{}
		b := newBelt(t, Config[int, int]{Kind: Updating, Containers: 1, Container: m.make, Handler: h})
		put(t, b, 1, 1)
		put(t, b, 2, 2)
		put(t, b, 1, 3)
		b.Rotate()
		if diff := cmp.Diff([]object[int, int]{{2, 2}, {1, 3}}, h.gone, visible); diff != "" {
			t.Errorf("%s: expired (-want +got):\n%s", m.name, diff)
		}
	}
}

// TestFault11: an object that is put while a reinserting handler runs is newer, and stays.
func TestFault11(t *testing.T) {
	for _, kind := range []Kind{Standard, Updating} {
		var b *Belt[int, string]
		b = newBelt(t, Config[int, string]{Kind: kind, Containers: 1, Handler: Reinserting[int, string](func(key int, value string) bool {
			if value == "old" {
				put(t, b, key, "new")
			}
			return true
		})})
		put(t, b, 1, "old")
		for range 2 {
			b.Rotate()
			if v, ok := b.Get(1); v != "new" || !ok || b.Len() != 1 {
				t.Errorf("%v belt: Get = %q, %v; %d objects", kind, v, ok, b.Len())
			}
		}
	}
}

// TestFault12: impossible numbers are refused at the start.
func TestFault12(t *testing.T) {
	for _, n := range []int{-1 << 62, -1, MaxContainers + 1, 1 << 62} {
		if b, err := New(Config[int, int]{Containers: n}); !errors.Is(err, ErrContainers) || b != nil {
			t.Errorf("New with %d containers: %v, %v", n, b, err)
		}
	}
	for _, n := range []int{-1, 0, MaxContainers + 1} {
		if r, err := NewRing[int, int](n, 0, nil); !errors.Is(err, ErrContainers) || r != nil {
			t.Errorf("NewRing with %d containers: %v, %v", n, r, err)
		}
	}
	for _, n := range []int{-1, MaxObjects + 1} {
		if b, err := New(Config[int, int]{Limit: n}); !errors.Is(err, ErrLimit) || b != nil {
			t.Errorf("New with limit %d: %v, %v", n, b, err)
		}
	}
	if b, err := New(Config[int, int]{Kind: 2}); !errors.Is(err, ErrKind) || b != nil {
		t.Errorf("New of kind 2: %v, %v", b, err)
	}
}

// spy is a container that counts its calls by name.
type spy struct {
	Container[int, int]
	calls map[string]int
}

func (s spy) count(name string) { s.calls[name]++ }

func (s spy) Put(key, value int) uint64 { s.count("Put"); return s.Container.Put(key, value) }
func (s spy) Get(key int, place uint64) (int, bool) {
	s.count("Get")
	return s.Container.Get(key, place)
}

func (s spy) Remove(key int, place uint64) (int, bool) {
	s.count("Remove")
	return s.Container.Remove(key, place)
}
func (s spy) All() iter.Seq2[int, int] { s.count("All"); return s.Container.All() }
func (s spy) Len() int                 { s.count("Len"); return s.Container.Len() }

// TestRotationScansNothing is invariant 6: a rotation calls no container and allocates nothing, whatever the number of
// containers and of objects is.
func TestRotationScansNothing(t *testing.T) {
	const containers = 64
	calls := map[string]int{}
	b := newBelt(t, Config[int, int]{Containers: containers, Container: func() Container[int, int] {
		return spy{NewMapList[int, int](), calls}
	}})
	for n := 1; n <= containers; n++ {
		for key := range 50 {
			if err := b.PutFor(100*n+key, 0, n); err != nil {
				t.Fatal(err)
			}
		}
	}
	clear(calls)
	for n := 1; n <= containers; n++ {
		if gone := b.rotate(); gone == nil {
			t.Fatal("nothing fell off")
		}
		if len(calls) > 0 {
			t.Fatalf("rotation %d called containers: %v", n, calls)
		}
	}
	// Objects that have fallen off are still in the index, and are not looked up in the container
	// that has taken their slot.
	if err := b.PutFor(1, 0, 2); err != nil {
		t.Fatal(err)
	}
	clear(calls)
	if _, ok := b.Get(201); ok || len(calls) > 0 {
		t.Errorf("Get of what has fallen off: %v, with calls of %v", ok, calls)
	}
}

func TestRotationAllocatesNothing(t *testing.T) {
	for _, containers := range []int{2, MaxContainers} {
		b := newBelt(t, Config[int, int]{Containers: containers})
		for key := range min(containers, 200) {
			if err := b.PutFor(key, 0, key+1); err != nil {
				t.Fatal(err)
			}
		}
		if n := testing.AllocsPerRun(300, func() { b.Rotate() }); n > 0 {
			t.Errorf("a rotation of %d containers allocates %v times", containers, n)
		}
	}
}
