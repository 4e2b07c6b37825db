package timeoutbench

import (
	"container/heap"
	"fmt"
	"time"

	"github.com/txmgr/txmgr/timeout"
	ownheap "github.com/txmgr/txmgr/timeout/heap"
)

type treeQueue struct {
	heap  ownheap.Heap[int]
	nodes []*ownheap.Node[int]
}

func (q *treeQueue) sleep(ends []timeout.Tick) {
	for n := range q.nodes {
		q.heap.Insert(q.nodes[n], ends[n])
	}
}

func (q *treeQueue) interrupt() error {
	for n := range q.nodes {
		if !q.heap.Remove(q.nodes[n]) {
			return fmt.Errorf("sleeper %d was lost", n)
		}
	}
	return nil
}

type arrayItem struct {
	end   timeout.Tick
	place int
}

// arrayHeap is container/heap over pointers, each of which has its index.
type arrayHeap []*arrayItem

func (a arrayHeap) Len() int           { return len(a) }
func (a arrayHeap) Less(i, k int) bool { return a[i].end < a[k].end }

func (a arrayHeap) Swap(i, k int) {
	a[i], a[k] = a[k], a[i]
	a[i].place, a[k].place = i, k
}

func (a *arrayHeap) Push(x any) {
	item := x.(*arrayItem)
	item.place = len(*a)
	*a = append(*a, item)
}

func (a *arrayHeap) Pop() any {
	last := len(*a) - 1
	item := (*a)[last]
	*a = (*a)[:last]
	return item
}

type arrayQueue struct {
	array arrayHeap
	items []*arrayItem
}

func (q *arrayQueue) sleep(ends []timeout.Tick) {
	for n := range q.items {
		q.items[n].end = ends[n]
		heap.Push(&q.array, q.items[n])
	}
}

func (q *arrayQueue) interrupt() error {
	for n := range q.items {
		if heap.Remove(&q.array, q.items[n].place) != any(q.items[n]) {
			return fmt.Errorf("sleeper %d was lost", n)
		}
	}
	return nil
}

// listQueue is the sorted, doubly linked list that the source had before.
type listQueue struct {
	root  listNode // root.next ends first
	nodes []*listNode
}

type listNode struct {
	end        timeout.Tick
	prev, next *listNode
}

func newListQueue(threads bool) *listQueue {
	q := &listQueue{nodes: nodesOf[listNode](threads)}
	q.root.prev, q.root.next = &q.root, &q.root
	return q
}

func (q *listQueue) sleep(ends []timeout.Tick) {
	for n := range q.nodes {
		at := q.root.next
		for at != &q.root && at.end <= ends[n] {
			at = at.next
		}
		node := q.nodes[n]
		node.end, node.prev, node.next = ends[n], at.prev, at
		at.prev.next, at.prev = node, node
	}
}

func (q *listQueue) interrupt() error {
	for n := range q.nodes {
		node := q.nodes[n]
		node.prev.next, node.next.prev = node.next, node.prev
	}
	if q.root.next != &q.root {
		return fmt.Errorf("a sleeper of %d was left", Sleepers)
	}
	return nil
}

type timerQueue struct{ timers []*time.Timer }

// sleep sets each timer an hour ahead, so that none fires.
func (q *timerQueue) sleep(ends []timeout.Tick) {
	for n := range q.timers {
		q.timers[n] = time.AfterFunc(time.Hour+time.Duration(ends[n]), func() {})
	}
}

func (q *timerQueue) interrupt() error {
	for n, t := range q.timers {
		if !t.Stop() {
			return fmt.Errorf("sleeper %d was lost", n)
		}
	}
	return nil
}
