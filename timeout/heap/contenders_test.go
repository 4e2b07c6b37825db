package heap

import (
	"container/heap"
	"time"

	"github.com/txmgr/txmgr/timeout"
)

// layout is where the sleepers lie in memory.
type layout string

const (
	// packed sleepers are only the queue's part, one beside the other.
	packed layout = "packed"
	// threads are the sleepers of the heap's source: each is an object of its own, of which the
	// queue's part is a small one.
	threads layout = "threads"
)

// thread is as large as a descriptor of State Threads with its few private words.
type thread[N any] struct {
	node N
	_    [192]byte
}

func allocate[N any](l layout, n int) []*N {
	all := make([]*N, n)
	together := make([]N, n)
	for i := range all {
		all[i] = &together[i]
		if l == threads {
			all[i] = &new(thread[N]).node
		}
	}
	return all
}

// tree is the heap of this package.
type tree struct {
	heap  Heap[int]
	nodes []*Node[int]
}

func newTree(l layout, sleepers int) contender {
	return &tree{nodes: allocate[Node[int]](l, sleepers)}
}

func (q *tree) insert(who []int, ends []timeout.Tick) {
	for i, w := range who {
		q.heap.Insert(q.nodes[w], ends[i])
	}
}

func (q *tree) remove(who []int) {
	for _, w := range who {
		if !q.heap.Remove(q.nodes[w]) {
			panic("lost a sleeper")
		}
	}
}

// array is container/heap over pointers, each of which knows its place, so that it can be removed.
type array struct {
	queue items
	items []*item
}

type item struct {
	value int
	end   timeout.Tick
	place int
}

type items []*item

func (s items) Len() int           { return len(s) }
func (s items) Less(i, k int) bool { return s[i].end < s[k].end }

func (s items) Swap(i, k int) {
	s[i], s[k] = s[k], s[i]
	s[i].place, s[k].place = i, k
}

// Push and Pop are the interface of container/heap.
func (s *items) Push(x any) {
	it := x.(*item)
	it.place = len(*s)
	*s = append(*s, it)
}

func (s *items) Pop() any {
	last := len(*s) - 1
	it := (*s)[last]
	(*s)[last] = nil
	*s = (*s)[:last]
	return it
}

func newArray(l layout, sleepers int) contender { return &array{items: allocate[item](l, sleepers)} }

func (q *array) insert(who []int, ends []timeout.Tick) {
	for i, w := range who {
		it := q.items[w]
		it.value, it.end = w, ends[i]
		heap.Push(&q.queue, it)
	}
}

func (q *array) remove(who []int) {
	for _, w := range who {
		if it := heap.Remove(&q.queue, q.items[w].place).(*item); it.value != w {
			panic("removed another sleeper")
		}
	}
}

// sorted is the doubly linked list that the source had before.
type sorted struct {
	root  sleeper // root.next ends first
	nodes []*sleeper
}

type sleeper struct {
	end        timeout.Tick
	prev, next *sleeper
}

func newSorted(l layout, sleepers int) contender {
	q := &sorted{nodes: allocate[sleeper](l, sleepers)}
	q.root.prev, q.root.next = &q.root, &q.root
	return q
}

func (q *sorted) insert(who []int, ends []timeout.Tick) {
	for i, w := range who {
		n := q.nodes[w]
		n.end = ends[i]
		at := q.root.next
		for at != &q.root && at.end <= n.end {
			at = at.next
		}
		n.prev, n.next = at.prev, at
		n.prev.next, n.next.prev = n, n
	}
}

func (q *sorted) remove(who []int) {
	for _, w := range who {
		n := q.nodes[w]
		n.prev.next, n.next.prev = n.next, n.prev
		n.prev, n.next = nil, nil
	}
}

// timers are the runtime's.
type timers struct{ timers []*time.Timer }

func newTimers(_ layout, sleepers int) contender { return &timers{make([]*time.Timer, sleepers)} }

// insert sets each an hour ahead, so that none fires during a measurement.
func (q *timers) insert(who []int, ends []timeout.Tick) {
	for i, w := range who {
		q.timers[w] = time.AfterFunc(time.Hour+time.Duration(ends[i])*time.Microsecond, func() { panic("slept too long") })
	}
}

func (q *timers) remove(who []int) {
	for _, w := range who {
		if !q.timers[w].Stop() {
			panic("lost a sleeper")
		}
	}
}
