package hashbelt

import (
	"iter"
	"math/bits"
)

// mapSlice is a container of a slice of objects, the number of which is their place. What is removed leaves a hole; a block
// of the slice goes when all its objects have.
type mapSlice[K comparable, V any] struct {
	objects blocks[object[K, V]]
	live    []uint64 // for each block, which of its places are no holes
	count   int
}

// NewMapSlice returns a container that has a slice, and shares the map of its belt: its iteration
// is the fastest, and it takes the least memory as long as nothing is removed. A removed object
// gives its memory back only when its neighbours, 64 at a time, are gone too. It is for belts whose
// objects nearly all stay until their end.
func NewMapSlice[K comparable, V any]() Container[K, V] { return &mapSlice[K, V]{} }

func (c *mapSlice[K, V]) Put(key K, value V) uint64 {
	i := c.objects.add(object[K, V]{key, value})
	if i%blockLen == 0 {
		c.live = append(c.live, 0)
	}
	c.live[i/blockLen] |= 1 << (i % blockLen)
	c.count++
	return uint64(i)
}

// find returns the object of key, nil if that is not at place.
func (c *mapSlice[K, V]) find(key K, place uint64) *object[K, V] {
	if place >= uint64(c.objects.made) || c.live[place/blockLen]>>(place%blockLen)&1 == 0 {
		return nil
	}
	o := c.objects.at(int(place))
	if o.key != key {
		return nil
	}
	return o
}

func (c *mapSlice[K, V]) Get(key K, place uint64) (value V, ok bool) {
	if o := c.find(key, place); o != nil {
		return o.value, true
	}
	return value, false
}

func (c *mapSlice[K, V]) Remove(key K, place uint64) (value V, ok bool) {
	o := c.find(key, place)
	if o == nil {
		return value, false
	}
	value = o.value
	*o = object[K, V]{}
	b := int(place / blockLen)
	c.live[b] &^= 1 << (place % blockLen)
	if c.live[b] == 0 && (b+1)*blockLen <= c.objects.made {
		c.objects.list[b] = nil
	}
	c.count--
	return value, true
}

func (c *mapSlice[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for b, live := range c.live {
			for ; live != 0; live &= live - 1 {
				if o := &c.objects.list[b][bits.TrailingZeros64(live)]; !yield(o.key, o.value) {
					return
				}
			}
		}
	}
}

func (c *mapSlice[K, V]) Len() int { return c.count }
