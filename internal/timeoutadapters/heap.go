package timeoutadapters

import (
	"github.com/txmgr/txmgr/timeout"
	"github.com/txmgr/txmgr/timeout/heap"
)

// Heap is a timeout heap of numbers.
type Heap struct {
	now  timeout.Tick
	heap heap.Heap[uint64]
}

// NewHeap returns an empty heap at the tick now.
func NewHeap(now timeout.Tick) *Heap { return &Heap{now: now} }

// Add implements [timeout.Structure].
func (h *Heap) Add(id uint64, end timeout.Tick) *heap.Node[uint64] {
	n := &heap.Node[uint64]{Value: id}
	h.heap.Insert(n, max(end, h.now))
	return n
}

// Cancel implements [timeout.Structure].
func (h *Heap) Cancel(id uint64, n *heap.Node[uint64]) bool {
	return n != nil && n.Value == id && h.heap.Remove(n)
}

// Advance implements [timeout.Structure].
func (h *Heap) Advance(to timeout.Tick) { h.now = max(h.now, to) }

// Expire implements [timeout.Structure].
func (h *Heap) Expire(buf []uint64) int {
	for i := range buf {
		first := h.heap.Peek()
		if first == nil || first.End() > h.now {
			return i
		}
		buf[i] = h.heap.Pop().Value
	}
	return len(buf)
}

// Next implements [timeout.Structure].
func (h *Heap) Next() (timeout.Tick, bool) {
	first := h.heap.Peek()
	if first == nil {
		return 0, false
	}
	return first.End(), true
}

// Len implements [timeout.Structure].
func (h *Heap) Len() int { return h.heap.Len() }

// Now implements [timeout.Structure].
func (h *Heap) Now() timeout.Tick { return h.now }
