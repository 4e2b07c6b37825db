package heap

import (
	"fmt"
	"math/bits"
)

// check verifies the invariants of a heap between two calls: 1 to 3 of the package doc.
func (h *Heap[T]) check() error {
	seen := make(map[*Node[T]]bool)
	var visit func(n *Node[T], index uint64) error
	visit = func(n *Node[T], index uint64) error {
		switch {
		case n == nil && index <= h.size:
			return fmt.Errorf("there is no node %d of %d", index, h.size)
		case n == nil:
			return nil
		case index > h.size:
			return fmt.Errorf("there is a node %d, the heap counts %d", index, h.size)
		case n.index != index:
			return fmt.Errorf("the node in the place of %d has the number %d", index, n.index)
		case seen[n]:
			return fmt.Errorf("node %d stands in two places", index)
		case h.find(index) != n:
			return fmt.Errorf("the digits of %d do not lead to node %d", index, index)
		}
		seen[n] = true
		for side, c := range n.child {
			if c != nil && c.end < n.end {
				return fmt.Errorf("node %d ends at %d, before its parent %d at %d", c.index, c.end, index, n.end)
			}
			if err := visit(c, 2*index+uint64(side)); err != nil {
				return err
			}
		}
		return nil
	}
	if err := visit(h.root, 1); err != nil {
		return err
	}
	if h.Len() != len(seen) {
		return fmt.Errorf("Len = %d with %d nodes", h.Len(), len(seen))
	}
	return nil
}

// find follows the digits of an index from the root.
func (h *Heap[T]) find(index uint64) *Node[T] {
	n := h.root
	for d := bits.Len64(index) - 2; d >= 0 && n != nil; d-- {
		n = n.child[index>>d&1]
	}
	return n
}
