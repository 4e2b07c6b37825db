package hashbelt

import (
	"fmt"
	"iter"
	"math"

	"github.com/txmgr/txmgr/timeout"
)

const (
	// MaxContainers is the largest number of containers.
	MaxContainers = 1 << 16
	// MaxObjects is the largest number of objects on a ring or a belt at a time.
	MaxObjects = 1 << 30
)

// Ring is a belt for one owner: no lock, no handler, and the same results for the same calls in
// every process, so that it can be part of a replicated state.
//
// Its time is a tick, the number of rotations so far. A container is named by the tick at which it
// ends; with n containers there is one for each of the n ticks after Now. The owner chooses the end
// of each object, and may give all the same lifetime, Now plus n, or each its own. Make one with
// [NewRing]; the zero Ring is not usable.
type Ring[K comparable, V any] struct {
	now          timeout.Tick
	count, limit int
	newContainer func() Container[K, V]
	index        index[K]
	slots        []slot[K, V] // by end, modulo their number
	occupied     bitmap       // of the slots that hold something
}

// slot is a container and the number of its objects; nil and zero if the slot is empty.
type slot[K comparable, V any] struct {
	container Container[K, V]
	count     int
}

// NewRing returns an empty ring of so many containers at tick now; fresh makes each when it gets its first object, and is
// [NewMap], [NewMapList] (also when it is nil), [NewMapSlice], or the owner's.
//
// To rebuild a ring, add the objects of [Ring.Containers] in their order, with their ends, to a new ring of the same
// tick. The error wraps [ErrContainers].
func NewRing[K comparable, V any](containers int, now timeout.Tick, fresh func() Container[K, V]) (*Ring[K, V], error) {
	if containers < 1 || containers > MaxContainers {
		return nil, fmt.Errorf("hashbelt: %w: %d, want 1 to %d: rotate less often for a longer lifetime",
			ErrContainers, containers, MaxContainers)
	}
	if fresh == nil {
		fresh = NewMapList[K, V]
	}
	return &Ring[K, V]{
		now: now, limit: MaxObjects, newContainer: fresh, index: newIndex[K](containers),
		slots: make([]slot[K, V], containers), occupied: newBitmap(containers),
	}, nil
}

// Now returns the number of rotations so far.
func (r *Ring[K, V]) Now() timeout.Tick { return r.now }

// Len returns the number of objects.
func (r *Ring[K, V]) Len() int { return r.count }

// Front returns the end of the container that ends last. At the very end of time no container is left, and it is Now.
func (r *Ring[K, V]) Front() timeout.Tick { return r.end(len(r.slots)) }

// end returns the tick that is so many rotations from now.
func (r *Ring[K, V]) end(rotations int) timeout.Tick {
	return r.now + min(math.MaxUint64-r.now, timeout.Tick(rotations))
}

func (r *Ring[K, V]) slotOf(end timeout.Tick) int { return int(end % timeout.Tick(len(r.slots))) }

func (r *Ring[K, V]) at(end timeout.Tick) *slot[K, V] { return &r.slots[r.slotOf(end)] }

func (r *Ring[K, V]) inRange(end timeout.Tick) bool { return end > r.now && end <= r.Front() }

// Add puts an object under a key that is not on the ring into the container that ends at end, behind the others there.
// The error is [ErrKnown] or [ErrFull], or wraps [ErrKey] or [ErrEnd]; the ring is unchanged then.
func (r *Ring[K, V]) Add(key K, value V, end timeout.Tick) error {
	if err := r.validate(key, end); err != nil {
		return err
	}
	if _, _, ok := r.Get(key); ok {
		return ErrKnown
	}
	return r.add(key, value, end)
}

// AddNew is Add for an owner that knows that the key is not on the ring, which saves a lookup in a
// large map. If the key is there after all, the ring holds two objects, of which it finds the later
// one. The error is [ErrFull], or wraps [ErrKey] or [ErrEnd]; the ring is unchanged then.
func (r *Ring[K, V]) AddNew(key K, value V, end timeout.Tick) error {
	if err := r.validate(key, end); err != nil {
		return err
	}
	return r.add(key, value, end)
}

// Put puts an object into the container that ends at end, behind the others there, and replaces the object that is on the
// ring under the key, if there is one. The error is [ErrFull], or wraps [ErrKey] or [ErrEnd]; the ring is unchanged then.
func (r *Ring[K, V]) Put(key K, value V, end timeout.Tick) error {
	if err := r.validate(key, end); err != nil {
		return err
	}
	c, was, place := r.find(key)
	if _, ok := r.extract(c, key, was, place); !ok {
		return r.add(key, value, end)
	}
	r.insert(key, value, end)
	return nil
}

func (r *Ring[K, V]) validate(key K, end timeout.Tick) error {
	if same := key; key != same {
		return fmt.Errorf("hashbelt: %w: %v", ErrKey, key)
	}
	if !r.inRange(end) {
		return fmt.Errorf("hashbelt: %w: tick %d, want one after %d and up to %d", ErrEnd, end, r.now, r.Front())
	}
	return nil
}

// add is Add of a key that is not on the ring.
func (r *Ring[K, V]) add(key K, value V, end timeout.Tick) error {
	if r.count >= r.limit {
		return ErrFull
	}
	r.count++
	r.insert(key, value, end)
	return nil
}

// insert puts an object into a container, which is made if need be.
func (r *Ring[K, V]) insert(key K, value V, end timeout.Tick) {
	s := r.at(end)
	if s.count == 0 {
		s.container = r.newContainer()
		r.occupied.set(r.slotOf(end))
	}
	s.count++
	r.index.set(key, end, s.container.Put(key, value))
}

// extract takes an object out of its container, if there is one, and with its last object the container off the ring.
func (r *Ring[K, V]) extract(c Container[K, V], key K, end timeout.Tick, place uint64) (value V, ok bool) {
	if c == nil {
		return value, false
	}
	if value, ok = c.Remove(key, place); !ok {
		return value, false
	}
	if s := r.at(end); s.count == 1 {
		r.clearSlot(r.slotOf(end))
	} else {
		s.count--
	}
	return value, true
}

// find returns the container and the place where key is if it is on the ring, or nil.
func (r *Ring[K, V]) find(key K) (c Container[K, V], end timeout.Tick, place uint64) {
	end, place, ok := r.index.find(key, r.now)
	if ok {
		c = r.at(end).container
	}
	return c, end, place
}

// Get returns the object under key and when it ends, or false if there is none.
func (r *Ring[K, V]) Get(key K) (value V, end timeout.Tick, ok bool) {
	c, end, place := r.find(key)
	if c != nil {
		value, ok = c.Get(key, place)
	}
	return value, end, ok
}

// Move is Get that moves the object to the container that ends at end, behind the others there. It stays where it is if
// that is the same container, or if the ring has none that ends then.
func (r *Ring[K, V]) Move(key K, end timeout.Tick) (value V, ok bool) {
	c, was, place := r.find(key)
	switch {
	case c == nil:
	case was == end || !r.inRange(end):
		value, ok = c.Get(key, place)
	default:
		if value, ok = r.extract(c, key, was, place); ok {
			r.insert(key, value, end)
		}
	}
	return value, ok
}

// Remove takes an object off the ring and returns it, or false if there is none.
func (r *Ring[K, V]) Remove(key K) (value V, ok bool) {
	c, end, place := r.find(key)
	if value, ok = r.extract(c, key, end, place); ok {
		r.index.remove(key)
		r.count--
	}
	return value, ok
}

// Clear takes all objects off.
func (r *Ring[K, V]) Clear() {
	r.count = 0
	r.index = newIndex[K](len(r.slots))
	clear(r.slots)
	clear(r.occupied)
}

// Rotate advances by one tick and returns the container that has ended with it, nil if nothing was in it.
func (r *Ring[K, V]) Rotate() Container[K, V] {
	r.advanceTo(r.end(1))
	return r.takeContainer(r.now)
}

// Advance moves Now forward to the tick to, or only to the first end on the way at which a
// container holds something; that container it takes off and returns. So it is called until it
// returns nil, which it also does if to has passed. A year costs no more calls than there are
// containers.
func (r *Ring[K, V]) Advance(to timeout.Tick) Container[K, V] {
	next, ok := r.Next()
	switch {
	case ok && next <= to:
		r.advanceTo(next)
		return r.takeContainer(next)
	case to > r.now:
		r.advanceTo(to)
	}
	return nil
}

func (r *Ring[K, V]) advanceTo(to timeout.Tick) {
	last := r.Front()
	r.now = to
	r.index.advance(r.end(1), last)
}

// TakeFirst takes off the container that ends first, before its time, and returns it; nil if
// nothing but the front one holds anything. Now and the ends of all others stay. It is for an owner
// that bounds the number of objects.
func (r *Ring[K, V]) TakeFirst() Container[K, V] {
	next, ok := r.Next()
	if !ok || next == r.Front() {
		return nil
	}
	gone := r.takeContainer(next)
	first, ok := r.next(next)
	if !ok {
		first = r.Front()
	}
	r.index.advance(first, r.Front())
	return gone
}

// takeContainer takes a whole container off the ring, which has the count: the container is not
// asked.
func (r *Ring[K, V]) takeContainer(end timeout.Tick) Container[K, V] {
	i := r.slotOf(end)
	gone := r.slots[i]
	if gone.count > 0 {
		r.count -= gone.count
		r.clearSlot(i)
	}
	return gone.container
}

// clearSlot empties a slot; the caller updates the count.
func (r *Ring[K, V]) clearSlot(i int) {
	r.slots[i] = slot[K, V]{}
	r.occupied.unset(i)
}

// Next returns the first tick at which a container ends that holds something, or false if the ring is empty.
func (r *Ring[K, V]) Next() (timeout.Tick, bool) { return r.next(r.now) }

// next returns the first end after the given one.
func (r *Ring[K, V]) next(after timeout.Tick) (timeout.Tick, bool) {
	after = max(after, r.now)
	if after >= r.Front() {
		return 0, false
	}
	start := r.slotOf(after + 1)
	i, ok := r.occupied.from(start)
	if !ok {
		i, ok = r.occupied.from(0)
	}
	if i < start {
		i += len(r.slots)
	}
	// Nothing behind after: the search has gone once round the ring.
	ahead := timeout.Tick(i - start)
	return after + 1 + ahead, ok && ahead < r.Front()-after
}

// Backward yields the containers that end at last or earlier and hold something, in the reverse
// order of their ends, and the end of each. They must not be changed, and the ring must not change
// meanwhile.
func (r *Ring[K, V]) Backward(last timeout.Tick) iter.Seq2[timeout.Tick, Container[K, V]] {
	return func(yield func(timeout.Tick, Container[K, V]) bool) {
		for end := min(last, r.Front()); end > r.now; end-- {
			if s := r.at(end); s.count > 0 && !yield(end, s.container) {
				return
			}
		}
	}
}

// Containers yields the containers that hold something, in the order of their ends, and the end of
// each. They must not be changed, and the ring must not change meanwhile.
func (r *Ring[K, V]) Containers() iter.Seq2[timeout.Tick, Container[K, V]] {
	return func(yield func(timeout.Tick, Container[K, V]) bool) {
		for end, ok := r.Next(); ok; end, ok = r.next(end) {
			if !yield(end, r.at(end).container) {
				return
			}
		}
	}
}
