package hashbelt

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestHandlers: each object comes to the function once, in the order of joining; reinserted ones come back in every turn.
func TestHandlers(t *testing.T) {
	const containers = 3
	for _, kind := range []Kind{Standard, Updating} {
		for _, m := range makers[int, string]() {
			var simple, again []int
			for _, h := range []Handler[int, string]{
				Null[int, string]{},
				Simple[int, string](func(key int, value string) {
					if value != fmt.Sprint(key) {
						t.Errorf("object %d comes with %q", key, value)
					}
					simple = append(simple, key)
				}),
				Reinserting[int, string](func(key int, value string) bool {
					if value != fmt.Sprint(key) {
						t.Errorf("object %d comes with %q", key, value)
					}
					again = append(again, key)
					return key != 2
				}),
			} {
				b := newBelt(t, Config[int, string]{Kind: kind, Containers: containers, Container: m.make, Handler: h})
				for key := range 4 {
					put(t, b, key, fmt.Sprint(key))
				}
				for n := 1; n <= 3*containers; n++ {
					if fell := b.Rotate(); n == containers && fell != 4 || n%containers != 0 && fell != 0 {
						t.Errorf("%v/%s: %d objects fell off at rotation %d", kind, m.name, fell, n)
					}
				}
			}
			if diff := cmp.Diff([]int{0, 1, 2, 3}, simple); diff != "" {
				t.Errorf("%v/%s: simple (-want +got):\n%s", kind, m.name, diff)
			}
			if diff := cmp.Diff([]int{0, 1, 2, 3, 0, 1, 3, 0, 1, 3}, again); diff != "" {
				t.Errorf("%v/%s: reinserting (-want +got):\n%s", kind, m.name, diff)
			}
		}
	}
}

// TestHandlerPanics: the function is called for all objects, one that made it panic does not go
// back, and the panic has the value and the stack.
func TestHandlerPanics(t *testing.T) {
	var seen []int
	poisoned := func(key, _ int) bool {
		seen = append(seen, key)
		switch key {
		case 1:
			panic(io.ErrUnexpectedEOF)
		case 3:
			panic("three")
		}
		return true
	}
	for _, h := range []Handler[int, int]{
		Simple[int, int](func(key, value int) { poisoned(key, value) }),
		Reinserting[int, int](poisoned),
	} {
		seen = nil
		b := newBelt(t, Config[int, int]{Containers: 1, Handler: h})
		for key := range 5 {
			put(t, b, key, 0)
		}
		func() {
			defer func() {
				p, ok := recover().(*Panic)
				if !ok || p.Times != 2 || !errors.Is(p, io.ErrUnexpectedEOF) {
					t.Fatalf("%T panicked with %v", h, p)
				}
				for _, say := range []string{"2 of the objects", "unexpected EOF", "TestHandlerPanics"} {
					if !strings.Contains(p.Error(), say) {
						t.Errorf("%T: the panic does not say %q:\n%v", h, say, p)
					}
				}
			}()
			b.Rotate()
		}()
		if diff := cmp.Diff([]int{0, 1, 2, 3, 4}, seen); diff != "" {
			t.Errorf("%T (-want +got):\n%s", h, diff)
		}
		back := 0
		if _, ok := h.(Reinserting[int, int]); ok {
			back = 3
		}
		if err := b.ring.check(); err != nil || b.Len() != back {
			t.Errorf("%T: %d objects went back, want %d; %v", h, b.Len(), back, err)
		}
	}
}

// handlerFunc is a handler of a user's.
type handlerFunc func(b *Belt[int, int], gone Container[int, int])

func (f handlerFunc) Expire(b *Belt[int, int], gone Container[int, int]) { f(b, gone) }

// TestHandlerCallsBelt: a handler may call every method of the belt.
func TestHandlerCallsBelt(t *testing.T) {
	rotations := 0
	b := newBelt(t, Config[int, int]{Kind: Updating, Containers: 2, Handler: handlerFunc(func(b *Belt[int, int], gone Container[int, int]) {
		for key, value := range gone.All() {
			if _, ok := b.Get(key); ok {
				t.Errorf("%d has fallen off and is there", key)
			}
			if err := b.Put(key, value+1); err != nil {
				t.Error(err)
			}
		}
		put(t, b, 100, 0)
		if _, ok := b.Remove(100); !ok {
			t.Error("100 was not removed")
		}
		if rotations++; rotations < 5 {
			b.Rotate()
			b.Rotate()
		}
	})})
	put(t, b, 1, 0)
	b.Rotate()
	if n := b.Rotate(); n != 1 {
		t.Errorf("%d objects fell off", n)
	}
	if v, ok := b.Get(1); v != 5 || !ok || b.Len() != 1 || b.Now() != 10 {
		t.Errorf("after 5 turns: %d, %v, %d objects at %d", v, ok, b.Len(), b.Now())
	}
}

// TestReinsertingLetsGo: an object that cannot go back is dropped, and the others are still
// handled.
func TestReinsertingLetsGo(t *testing.T) {
	var b *Belt[int, int]
	calls := 0
	b = newBelt(t, Config[int, int]{Containers: 1, Limit: 2, Handler: Reinserting[int, int](func(int, int) bool {
		if calls++; calls == 1 {
			put(t, b, 7, 0)
		}
		return true
	})})
	put(t, b, 1, 0)
	put(t, b, 2, 0)
	if b.Rotate(); calls != 2 || b.Len() != 2 {
		t.Errorf("%d calls, %d objects; want 7 and the first to go back", calls, b.Len())
	}
	if _, ok := b.Get(2); ok {
		t.Error("2 went back to a full belt")
	}

	b = newBelt(t, Config[int, int]{Containers: 1, Handler: Reinserting[int, int](func(int, int) bool {
		calls++
		b.Halt()
		return true
	})})
	put(t, b, 1, 0)
	put(t, b, 2, 0)
	if b.Rotate(); calls != 4 || b.Len() != 0 {
		t.Errorf("%d calls, %d objects on a belt that was halted meanwhile", calls-2, b.Len())
	}
}
