package survivalpeers

import (
	"container/heap"
	"sync"

	"github.com/google/btree"

	"github.com/txmgr/txmgr/timeout/survival"
)

// Item is an entry of [Heap]. It knows its position, so that it can be removed.
type Item struct {
	id    uint64
	end   survival.Tick
	index int // -1 once it is removed
}

// queue is the priority queue of container/heap's documentation.
type queue []*Item

func (q queue) Len() int { return len(q) }

func (q queue) Less(i, j int) bool {
	if q[i].end != q[j].end {
		return q[i].end < q[j].end
	}
	return q[i].id < q[j].id
}

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index = i
	q[j].index = j
}

func (q *queue) Push(x any) {
	item := x.(*Item)
	item.index = len(*q)
	*q = append(*q, item)
}

func (q *queue) Pop() any {
	last := len(*q) - 1
	item := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	item.index = -1
	return item
}

// Heap is container/heap with the position tracked in the item, behind a mutex.
type Heap struct {
	mu    sync.Mutex
	queue queue // guarded by mu
}

// Add implements [Timers].
func (h *Heap) Add(ids []uint64, ends []survival.Tick, handles []*Item) {
	for n, id := range ids {
		item := &Item{id: id, end: ends[n]}
		h.mu.Lock()
		heap.Push(&h.queue, item)
		h.mu.Unlock()
		handles[n] = item
	}
}

// Cancel implements [Timers].
func (h *Heap) Cancel(handles []*Item) int {
	cancelled := 0
	for _, item := range handles {
		h.mu.Lock()
		if item.index >= 0 {
			heap.Remove(&h.queue, item.index)
			cancelled++
		}
		h.mu.Unlock()
	}
	return cancelled
}

// Expire implements [Virtual].
func (h *Heap) Expire(to survival.Tick, buf []uint64) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for n < len(buf) && len(h.queue) > 0 && h.queue[0].end <= to {
		buf[n] = heap.Pop(&h.queue).(*Item).id
		n++
	}
	return n
}

// Key is an entry of [Tree].
type Key struct {
	end survival.Tick
	id  uint64
}

func less(a, b Key) bool {
	if a.end != b.end {
		return a.end < b.end
	}
	return a.id < b.id
}

// Tree is google/btree behind a mutex.
type Tree struct {
	mu   sync.Mutex
	tree *btree.BTreeG[Key] // guarded by mu
}

// NewTree returns an empty tree of degree 32.
func NewTree() *Tree { return &Tree{tree: btree.NewG(32, less)} }

// Add implements [Timers].
func (t *Tree) Add(ids []uint64, ends []survival.Tick, handles []Key) {
	for n, id := range ids {
		key := Key{ends[n], id}
		t.mu.Lock()
		t.tree.ReplaceOrInsert(key)
		t.mu.Unlock()
		handles[n] = key
	}
}

// Cancel implements [Timers].
func (t *Tree) Cancel(handles []Key) int {
	cancelled := 0
	for _, key := range handles {
		t.mu.Lock()
		_, ok := t.tree.Delete(key)
		t.mu.Unlock()
		if ok {
			cancelled++
		}
	}
	return cancelled
}

// Expire implements [Virtual].
func (t *Tree) Expire(to survival.Tick, buf []uint64) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for n < len(buf) {
		first, ok := t.tree.Min()
		if !ok || first.end > to {
			break
		}
		t.tree.DeleteMin()
		buf[n] = first.id
		n++
	}
	return n
}
