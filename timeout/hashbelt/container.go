package hashbelt

import "iter"

// Container holds the objects of a belt that end together.
//
// Three are provided: [NewMap], [NewMapList] and [NewMapSlice]. They behave alike, so the choice is
// a matter of speed and memory. The belt knows the place of each object and passes it, so that a
// container needs no map to find one. It calls its containers under its lock; on their own they
// have none. A container that has fallen off belongs to the handler. A container is never cleared:
// a belt that is cleared drops its containers, and makes new ones.
type Container[K comparable, V any] interface {
	// Put adds the object of a key that is not in the container, behind all others, and returns its
	// place. The place is below 1<<40, and the container's to choose; it stays the same as long as
	// the object is in the container.
	Put(key K, value V) (place uint64)

	// Get returns the object of key, for which Put returned place. It returns false if the object
	// is not there, also when place is of another object or of none.
	Get(key K, place uint64) (value V, ok bool)

	// Remove takes the object off and returns it, or false as Get does.
	Remove(key K, place uint64) (value V, ok bool)

	// All yields the objects in the order in which they were put. The container must not change meanwhile.
	All() iter.Seq2[K, V]

	// Len returns the number of objects.
	Len() int
}

// object is a key and its value.
type object[K comparable, V any] struct {
	key   K
	value V
}

// blockLen is how many items grow together: at most so many are ever moved by a growing container.
const blockLen = 64

// blocks is a slice that grows without moving more than one block, so that no Put waits for a million items to be copied.
type blocks[T any] struct {
	list [][]T
	made int
}

// add appends an item and returns its number.
func (b *blocks[T]) add(item T) int {
	i := b.made
	switch {
	case i == 0:
		// The first block grows as it needs, so that a container of one object is small.
		b.list = append(b.list, nil)
	case i%blockLen == 0:
		b.list = append(b.list, make([]T, 0, blockLen))
	}
	rear := &b.list[i/blockLen]
	*rear = append(*rear, item)
	b.made++
	return i
}

// at returns item i. The pointer holds until the next add.
func (b *blocks[T]) at(i int) *T { return &b.list[i/blockLen][i%blockLen] }
