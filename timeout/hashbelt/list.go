package hashbelt

import "iter"

// mapList is a container of a doubly linked list. The cells name each other by number, which is the place of an object,
// and cell 0 closes the list to a ring: the first object is behind it, the last before it. A free cell is its own
// neighbour.
type mapList[K comparable, V any] struct {
	cells blocks[cell[K, V]]
	free  []uint32 // beside the cells, so that taking one waits for no cache miss
	count int
}

type cell[K comparable, V any] struct {
	object[K, V]
	next, prev uint32
}

// NewMapList returns a container that has a linked list, and shares the map of its belt: a removed
// object leaves its memory to the next one, and iteration costs a step for each. It is for belts
// from the middle of which objects are taken, such as an updating one.
func NewMapList[K comparable, V any]() Container[K, V] {
	c := &mapList[K, V]{}
	c.cells.add(cell[K, V]{})
	return c
}

func (c *mapList[K, V]) at(i uint32) *cell[K, V] { return c.cells.at(int(i)) }

func (c *mapList[K, V]) Put(key K, value V) uint64 {
	i := c.take()
	rear := c.at(0).prev
	*c.at(i) = cell[K, V]{object: object[K, V]{key, value}, prev: rear}
	c.at(rear).next = i
	c.at(0).prev = i
	c.count++
	return uint64(i)
}

// take returns the number of a cell that is in no list.
func (c *mapList[K, V]) take() uint32 {
	if n := len(c.free); n > 0 {
		i := c.free[n-1]
		c.free = c.free[:n-1]
		return i
	}
	return uint32(c.cells.add(cell[K, V]{}))
}

// find returns the cell of key, nil if that is not at place.
func (c *mapList[K, V]) find(key K, place uint64) *cell[K, V] {
	if place == 0 || place >= uint64(c.cells.made) {
		return nil
	}
	o := c.at(uint32(place))
	if o.key != key || uint64(o.next) == place {
		return nil
	}
	return o
}

func (c *mapList[K, V]) Get(key K, place uint64) (value V, ok bool) {
	if o := c.find(key, place); o != nil {
		return o.value, true
	}
	return value, false
}

func (c *mapList[K, V]) Remove(key K, place uint64) (value V, ok bool) {
	o := c.find(key, place)
	if o == nil {
		return value, false
	}
	value = o.value
	c.at(o.prev).next = o.next
	c.at(o.next).prev = o.prev
	i := uint32(place)
	// A stale reference in a free cell would keep its object in memory.
	*o = cell[K, V]{next: i, prev: i}
	c.free = append(c.free, i)
	c.count--
	return value, true
}

func (c *mapList[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for i := c.at(0).next; i != 0; i = c.at(i).next {
			if o := c.at(i); !yield(o.key, o.value) {
				return
			}
		}
	}
}

func (c *mapList[K, V]) Len() int { return c.count }
