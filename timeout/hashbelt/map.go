package hashbelt

import (
	"cmp"
	"iter"
	"slices"
)

// mapContainer is a container of nothing but a map. It does not use places.
type mapContainer[K comparable, V any] struct {
	objects   map[K]orderedValue[V]
	nextOrder uint64
}

// orderedValue is a value and how many objects came before it.
type orderedValue[V any] struct {
	value V
	order uint64
}

// NewMap returns a container that is a map of its own: no place is needed to find an object in it,
// so that a handler can look keys up. Iteration has to sort the objects first, and its map is in
// addition to that of the belt: it is for handlers that look up rather than iterate.
func NewMap[K comparable, V any]() Container[K, V] {
	return &mapContainer[K, V]{objects: make(map[K]orderedValue[V])}
}

func (c *mapContainer[K, V]) Put(key K, value V) uint64 {
	c.objects[key] = orderedValue[V]{value, c.nextOrder}
	c.nextOrder++
	return 0
}

func (c *mapContainer[K, V]) Get(key K, _ uint64) (V, bool) {
	o, ok := c.objects[key]
	return o.value, ok
}

func (c *mapContainer[K, V]) Remove(key K, _ uint64) (V, bool) {
	o, ok := c.objects[key]
	if ok {
		delete(c.objects, key)
	}
	return o.value, ok
}

func (c *mapContainer[K, V]) All() iter.Seq2[K, V] {
	type object struct {
		key K
		orderedValue[V]
	}
	return func(yield func(K, V) bool) {
		sorted := make([]object, 0, len(c.objects))
		for key, o := range c.objects { //archtest:order sorted by the order of coming before anybody sees it
			sorted = append(sorted, object{key, o})
		}
		slices.SortFunc(sorted, func(a, b object) int { return cmp.Compare(a.order, b.order) })
		for i := range sorted {
			if !yield(sorted[i].key, sorted[i].value) {
				return
			}
		}
	}
}

func (c *mapContainer[K, V]) Len() int { return len(c.objects) }
