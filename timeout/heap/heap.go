package heap

import (
	"math/bits"

	"github.com/txmgr/txmgr/timeout"
)

// Node is an element of a [Heap]. Its owner makes it, alone or inside of a larger struct, and does
// not move it: a copy of a node that stands in a heap stands in none. The zero Node stands in no
// heap.
type Node[T any] struct {
	end   timeout.Tick // before child: the fields that a walk reads are adjacent
	child [2]*Node[T]  // left, right
	index uint64       // 0: in no heap

	// Value is the owner's. The heap does not read it.
	Value T
}

// End returns the tick with which the node was inserted last.
func (n *Node[T]) End() timeout.Tick { return n.end }

// Queued reports whether the node stands in a heap.
func (n *Node[T]) Queued() bool { return n.index != 0 }

func (n *Node[T]) release() {
	n.index, n.child[0], n.child[1] = 0, nil, nil
}

// Heap is a set of nodes that gives the one that ends first. The zero Heap is empty and ready for
// use.
//
// A Heap has one owner and no lock, and must not be copied once it holds a node.
type Heap[T any] struct {
	root *Node[T]
	size uint64
}

// Len returns how many nodes the heap holds.
func (h *Heap[T]) Len() int { return int(h.size) }

// Peek returns the node that ends first, or nil if there is none. It stays in the heap.
func (h *Heap[T]) Peek() *Node[T] { return h.root }

// path returns the digits of an index below its leading one, the first of them in the highest bit, and how many they are.
func path(index uint64) (digits uint64, depth int) {
	zeros := bits.LeadingZeros64(index)
	return index << (zeros + 1), 63 - zeros
}

// Insert adds a node that ends at the given tick. It reports false, and does nothing, if n is nil or stands in a heap
// already, this one or another.
func (h *Heap[T]) Insert(n *Node[T], end timeout.Tick) bool {
	if n == nil || n.index != 0 {
		return false
	}
	n.end = end
	h.size++
	link := &h.root
	digits, depth := path(h.size)
	for range depth {
		x := *link
		if n.end < x.end {
			n.index, n.child[0], n.child[1] = x.index, x.child[0], x.child[1]
			*link = n
			x, n = n, x
		}
		link = &x.child[digits>>63]
		digits <<= 1
	}
	n.index, n.child[0], n.child[1] = h.size, nil, nil
	*link = n
	return true
}

// Remove takes a node out, wherever it stands. It reports false, and does nothing, if n is nil, stands in no heap, or in
// another one.
func (h *Heap[T]) Remove(n *Node[T]) bool {
	if n == nil || n.index == 0 || n.index > h.size {
		return false
	}
	last := h.link(h.size)
	sub := *last

	// Nothing may change before it is certain that the path leads to n and not to a node with the
	// same number.
	var above **Node[T]
	link := &h.root
	digits, depth := path(n.index)
	for range depth {
		x := *link
		if sub.end < x.end && above == nil {
			above = link
		}
		link = &x.child[digits>>63]
		digits <<= 1
	}
	if *link != n {
		return false
	}

	*last = nil
	h.size--
	switch {
	case sub == n:
	case above != nil:
		siftUp(above, sub, n)
	default:
		siftDown(link, sub, n)
	}
	n.release()
	return true
}

// Pop takes out the node that ends first and returns it, or nil if there is none.
func (h *Heap[T]) Pop() *Node[T] {
	n := h.root
	if n == nil {
		return nil
	}
	last := h.link(h.size)
	sub := *last
	*last = nil
	h.size--
	if sub != n {
		siftDown(&h.root, sub, n)
	}
	n.release()
	return n
}

// link returns the pointer that leads to the node with the given index.
func (h *Heap[T]) link(index uint64) **Node[T] {
	link := &h.root
	digits, depth := path(index)
	for range depth {
		link = &(*link).child[digits>>63]
		digits <<= 1
	}
	return link
}

// siftUp puts sub in the place to which link leads, and moves those from there to the place of n down by one.
func siftUp[T any](link **Node[T], sub, n *Node[T]) {
	depth := bits.Len64(n.index)
	for x := *link; x != n; x = *link {
		digit := n.index >> (depth - bits.Len64(x.index) - 1) & 1
		sub.index, sub.child = x.index, x.child
		*link = sub
		link = &sub.child[digit]
		sub = x
	}
	sub.index, sub.child = n.index, n.child
	*link = sub
}

// siftDown puts sub in the place of n, to which link leads, or below it: as far down as there are children that end earlier.
func siftDown[T any](link **Node[T], sub, n *Node[T]) {
	// As two variables the children are kept in registers; in an array they would not be.
	index, left, right := n.index, n.child[0], n.child[1]
	for left != nil {
		x, side := left, uint64(0)
		if right != nil && right.end < left.end {
			x, side = right, 1
		}
		if x.end >= sub.end {
			break
		}
		belowLeft, belowRight := x.child[0], x.child[1]
		x.index, x.child[0], x.child[1] = index, left, right
		*link = x
		link = &x.child[side]
		index, left, right = 2*index+side, belowLeft, belowRight
	}
	sub.index, sub.child[0], sub.child[1] = index, left, right
	*link = sub
}
