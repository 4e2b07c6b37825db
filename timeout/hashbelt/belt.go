package hashbelt

import (
	"fmt"
	"iter"
	"sync"

	"github.com/txmgr/txmgr/timeout"
)

// Kind defines whether an object lives longer when it is used.
type Kind uint8

const (
	// Standard belts give every object one lifetime, used or not: for objects that age, such as an
	// outcome.
	Standard Kind = iota
	// Updating belts restart an object's lifetime whenever it is put or got: for objects that have
	// to be kept alive, such as a client session.
	Updating
)

// String returns the kind's name.
func (k Kind) String() string {
	switch k {
	case Standard:
		return "standard"
	case Updating:
		return "updating"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Config configures a [Belt]. The zero Config is a standard belt without a handler.
type Config[K comparable, V any] struct {
	// Kind is Standard or Updating. Defaults to Standard.
	Kind Kind

	// Containers is the number of rotations that end an object: put between two of them, it falls off at the one with
	// this number. With one rotation every interval it lives at most Containers intervals, and at least one less; for a
	// lifetime of at least T it takes T/interval, rounded up, and one. At most MaxContainers. Defaults to 5.
	Containers int

	// Container makes the containers: NewMap, NewMapList, NewMapSlice, or one of the user's, which
	// must not call the belt. Defaults to NewMapList.
	Container func() Container[K, V]

	// Handler receives every container that has fallen off with something in it. Defaults to Null.
	Handler Handler[K, V]

	// Limit is how many objects the belt holds at most. Defaults to MaxObjects.
	Limit int
}

// Belt holds objects for a number of rotations and hands those that fall off to its handler, a container at a time.
//
// It is safe for concurrent use. Its time is the owner's: [Belt.Rotate] is one step. Make one with [New]; the zero Belt is
// not usable.
type Belt[K comparable, V any] struct {
	kind       Kind
	handler    Handler[K, V]
	containers int

	mu     sync.Mutex // guards what follows; no handler runs under it
	ring   *Ring[K, V]
	halted bool
}

// New makes an empty belt. The error wraps [ErrContainers], [ErrLimit] or [ErrKind].
func New[K comparable, V any](c Config[K, V]) (*Belt[K, V], error) {
	if c.Containers == 0 {
		c.Containers = 5
	}
	if c.Limit == 0 {
		c.Limit = MaxObjects
	}
	if c.Handler == nil {
		c.Handler = Null[K, V]{}
	}
	switch {
	case c.Kind > Updating:
		return nil, fmt.Errorf("hashbelt: %w, not %v", ErrKind, c.Kind)
	case c.Limit < 0 || c.Limit > MaxObjects:
		return nil, fmt.Errorf("hashbelt: %w: %d, want 1 to %d", ErrLimit, c.Limit, MaxObjects)
	}
	ring, err := NewRing(c.Containers, 0, c.Container)
	if err != nil {
		return nil, err
	}
	ring.limit = c.Limit
	return &Belt[K, V]{kind: c.Kind, handler: c.Handler, containers: c.Containers, ring: ring}, nil
}

// Put puts an object on the belt, for as many rotations as the belt has containers. If the key is
// on the belt already, a standard belt keeps the old object and returns [ErrKnown]; an updating one
// replaces it and restarts its lifetime. Other errors are [ErrFull] or [ErrHalted], or wrap
// [ErrKey]; after an error the belt is unchanged.
func (b *Belt[K, V]) Put(key K, value V) error {
	return b.put(key, value, b.containers, b.kind == Updating)
}

// PutFor is Put with another lifetime: the object falls off at the rotation with that number, counted from now. The error
// may also wrap [ErrEnd], if the number is not between 1 and that of the containers. A later Get on an updating belt gives
// the object the lifetime of the belt, as any other.
func (b *Belt[K, V]) PutFor(key K, value V, rotations int) error {
	if rotations < 1 || rotations > b.containers {
		return fmt.Errorf("hashbelt: %w: in %d rotations, want 1 to %d", ErrEnd, rotations, b.containers)
	}
	return b.put(key, value, rotations, b.kind == Updating)
}

// Add is Put that on an updating belt, too, keeps the old object and returns [ErrKnown]: for a
// handler that puts back an object that has fallen off, unless there is a newer one.
func (b *Belt[K, V]) Add(key K, value V) error { return b.put(key, value, b.containers, false) }

func (b *Belt[K, V]) put(key K, value V, rotations int, replace bool) error {
	b.mu.Lock()
	// Deferred, here and below, because a key of interface type can panic when it is compared, as in any map.
	defer b.mu.Unlock()
	switch {
	case b.halted:
		return ErrHalted
	case replace:
		return b.ring.Put(key, value, b.ring.end(rotations))
	}
	return b.ring.Add(key, value, b.ring.end(rotations))
}

// Get returns the object under key, or false if there is none. On an updating belt the object's
// lifetime restarts: a Get that returned true keeps it through as many rotations as the belt has
// containers, less one.
func (b *Belt[K, V]) Get(key K) (value V, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.kind == Updating {
		return b.ring.Move(key, b.ring.Front())
	}
	value, _, ok = b.ring.Get(key)
	return value, ok
}

// Remove takes an object off the belt and returns it, or false if there is none. A caller that gets
// true owns the object: no handler gets it, and no other Remove does.
func (b *Belt[K, V]) Remove(key K) (value V, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ring.Remove(key)
}

// Clear takes all objects off the belt. No handler gets them.
func (b *Belt[K, V]) Clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ring.Clear()
}

// Halt ends the belt: it is cleared, and from then on holds nothing, accepts nothing and rotates
// nothing. Objects that fell off before stay with the handler. Halting again has no effect.
func (b *Belt[K, V]) Halt() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.halted = true
	b.ring.Clear()
}

// Rotate is one step of time. It puts an empty container at the front, takes the last one off,
// passes that to the handler if it holds anything, and returns how many objects it held when it
// fell off.
//
// The handler runs without the lock, in the caller's goroutine: Rotate returns when the handler
// does. Others may use and rotate the belt meanwhile. A panic of the handler goes to the caller;
// the belt stays consistent.
func (b *Belt[K, V]) Rotate() int {
	gone := b.rotate()
	if gone == nil {
		return 0
	}
	n := gone.Len()
	b.handler.Expire(b, gone)
	return n
}

func (b *Belt[K, V]) rotate() Container[K, V] {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.halted {
		return nil
	}
	return b.ring.Rotate()
}

// Len returns the number of objects on the belt.
func (b *Belt[K, V]) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ring.Len()
}

// Now returns the number of rotations so far.
func (b *Belt[K, V]) Now() timeout.Tick {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ring.Now()
}

// All yields the objects, container after container, beginning with the one that falls off first,
// and in each in the order in which they came. It changes nothing, and the loop may call the belt.
//
// It copies one container at a time under the lock, during which all other calls wait: it is for
// inspection by an operator. An object that is on the belt all the while is met once; twice
// perhaps, if it moves meanwhile. It may be missed if PutFor makes its lifetime shorter, or the
// belt turns twice before the loop ends.
func (b *Belt[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		var copied []object[K, V]
		after := b.Now()
		last := after + timeout.Tick(2*b.containers)
		for ok := true; ok && after < last; {
			copied, after, ok = b.copyNext(copied[:0], after)
			for _, o := range copied {
				if !yield(o.key, o.value) {
					return
				}
			}
		}
	}
}

// copyNext appends the objects of the first container that ends after the given tick, and returns its end.
func (b *Belt[K, V]) copyNext(dst []object[K, V], after timeout.Tick) ([]object[K, V], timeout.Tick, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	end, ok := b.ring.next(after)
	if ok {
		for key, value := range b.ring.at(end).container.All() {
			dst = append(dst, object[K, V]{key, value})
		}
	}
	return dst, end, ok
}
