package hashbelt

import (
	"iter"
	"slices"
	"sync"
)

// modelBelt is the belt as in the source document: a row of containers, front first, that every
// lookup walks, and that a rotation copies. Under one lock it is slow and simple. Its containers
// need no places.
type modelBelt[K comparable, V any] struct {
	mu         sync.Mutex
	kind       Kind
	fresh      func() Container[K, V]
	containers []Container[K, V]
	expire     func(gone Container[K, V])
}

func newModelBelt[K comparable, V any](kind Kind, containers int, fresh func() Container[K, V]) *modelBelt[K, V] {
	w := &modelBelt[K, V]{kind: kind, fresh: fresh, expire: func(Container[K, V]) {}}
	for range containers {
		w.containers = append(w.containers, fresh())
	}
	return w
}

func (w *modelBelt[K, V]) find(key K) int {
	for i, c := range w.containers {
		if _, ok := c.Get(key, 0); ok {
			return i
		}
	}
	return -1
}

func (w *modelBelt[K, V]) putFor(key K, value V, rotations int, replace bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch at := w.find(key); {
	case at >= 0 && !replace:
		return ErrKnown
	case at >= 0:
		w.containers[at].Remove(key, 0)
	}
	w.containers[len(w.containers)-rotations].Put(key, value)
	return nil
}

func (w *modelBelt[K, V]) put(key K, value V) error {
	return w.putFor(key, value, len(w.containers), w.kind == Updating)
}

func (w *modelBelt[K, V]) get(key K) (value V, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.find(key)
	switch {
	case at < 0:
		return value, false
	case at == 0 || w.kind == Standard:
		return w.containers[at].Get(key, 0)
	}
	value, ok = w.containers[at].Remove(key, 0)
	w.containers[0].Put(key, value)
	return value, ok
}

func (w *modelBelt[K, V]) remove(key K) (value V, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at := w.find(key); at >= 0 {
		return w.containers[at].Remove(key, 0)
	}
	return value, false
}

func (w *modelBelt[K, V]) clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.containers {
		w.containers[i] = w.fresh()
	}
}

func (w *modelBelt[K, V]) rotate() int {
	w.mu.Lock()
	last := len(w.containers) - 1
	gone := w.containers[last]
	w.containers = append([]Container[K, V]{w.fresh()}, w.containers[:last]...)
	w.mu.Unlock()
	w.expire(gone)
	return gone.Len()
}

// all returns the objects in the order of Belt.All.
func (w *modelBelt[K, V]) all() []object[K, V] {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []object[K, V]
	for _, c := range slices.Backward(w.containers) {
		for key, value := range c.All() {
			all = append(all, object[K, V]{key, value})
		}
	}
	return all
}

// modelContainer is a container that is a slice and nothing else: the reference for the others.
type modelContainer[K comparable, V any] []object[K, V]

func newModelContainer[K comparable, V any]() Container[K, V] { return new(modelContainer[K, V]) }

func (c *modelContainer[K, V]) find(key K) int {
	return slices.IndexFunc(*c, func(o object[K, V]) bool { return o.key == key })
}

func (c *modelContainer[K, V]) Put(key K, value V) uint64 {
	*c = append(*c, object[K, V]{key, value})
	return 0
}

func (c *modelContainer[K, V]) Get(key K, _ uint64) (value V, ok bool) {
	if i := c.find(key); i >= 0 {
		return (*c)[i].value, true
	}
	return value, false
}

func (c *modelContainer[K, V]) Remove(key K, _ uint64) (value V, ok bool) {
	i := c.find(key)
	if i < 0 {
		return value, false
	}
	value = (*c)[i].value
	*c = slices.Delete(*c, i, i+1)
	return value, true
}

func (c *modelContainer[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, o := range *c {
			if !yield(o.key, o.value) {
				return
			}
		}
	}
}

func (c *modelContainer[K, V]) Len() int { return len(*c) }
