package main

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/txmgr/txmgr/internal/timeoutbench"
	"github.com/txmgr/txmgr/timeout"
	"github.com/txmgr/txmgr/timeout/hashbelt"
	ownheap "github.com/txmgr/txmgr/timeout/heap"
)

const sleepers, sleeperRounds = 1000, 1000

// queue is what sleepers sleep in. Sleepers are numbered from 0, and what the queue needs of each is there already.
type queue interface {
	sleep(ends []timeout.Tick) // all of them
	interrupt() error          // all, one after the other
}

// thread is as large as a descriptor of State Threads, of which what the queue needs is a small part.
type thread[N any] struct {
	node N
	_    [192]byte
}

// nodes are those of all sleepers: in threads, as in the source of the heap, or packed, one beside the other.
func nodes[N any](threads bool) []*N {
	all, packed, apart := make([]*N, sleepers), make([]N, sleepers), make([]thread[N], sleepers)
	for n := range all {
		all[n] = &packed[n]
		if threads {
			all[n] = &apart[n].node
		}
	}
	return all
}

// queues are the contenders of the experiment.
var queues = []struct {
	name string
	make func(threads bool) queue
}{
	{"heap", func(threads bool) queue { return &treeQueue{nodes: nodes[ownheap.Node[int]](threads)} }},
	{stdHeap, func(threads bool) queue { return &arrayQueue{items: nodes[arrayItem](threads)} }},
	{"sorted list", func(threads bool) queue { return newListQueue(threads) }},
	{afterFunc, func(bool) queue { return &timerQueue{timers: make([]*time.Timer, sleepers)} }},
}

// beds are the names of queues and layouts.
func beds() (all []string) {
	for _, q := range queues {
		all = append(all, q.name+", threads")
		if q.name != afterFunc { // whose timers are where they are
			all = append(all, q.name+", packed")
		}
	}
	return all
}

// sleep returns the milliseconds of processor that the experiment takes with a queue.
func sleep(name string) (float64, error) {
	for _, q := range queues {
		threads := q.name+", threads" == name
		if !threads && q.name+", packed" != name {
			continue
		}
		queue, r, ends := q.make(threads), rand.New(rand.NewPCG(1, 2)), make([]timeout.Tick, sleepers)
		var total time.Duration
		for range sleeperRounds {
			for n := range ends {
				ends[n] = timeout.Tick(r.Uint64N(1_000_000_000))
			}
			var err error
			total += timeoutbench.ThreadCPU(func() {
				queue.sleep(ends)
				err = queue.interrupt()
			})
			if err != nil {
				return 0, fmt.Errorf("%s: %w", name, err)
			}
		}
		return float64(total) / float64(time.Millisecond), nil
	}
	return 0, fmt.Errorf("there is no queue %q", name)
}

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

// array is container/heap over pointers, each of which knows its place.
type array []*arrayItem

func (a array) Len() int           { return len(a) }
func (a array) Less(i, k int) bool { return a[i].end < a[k].end }

func (a array) Swap(i, k int) {
	a[i], a[k] = a[k], a[i]
	a[i].place, a[k].place = i, k
}

func (a *array) Push(x any) {
	item := x.(*arrayItem)
	item.place = len(*a)
	*a = append(*a, item)
}

func (a *array) Pop() any {
	last := len(*a) - 1
	item := (*a)[last]
	*a = (*a)[:last]
	return item
}

type arrayQueue struct {
	array array
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
	q := &listQueue{nodes: nodes[listNode](threads)}
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
		return fmt.Errorf("a sleeper of %d was left", sleepers)
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

// Parts of what is measured when a container falls off.
const (
	wholeCall = "rotation, the whole call"
	underLock = "rotation, under the lock"
)

// rotate measures the nanoseconds in which a container with so many objects falls off a belt that others use, and those for
// which others wait: under its lock a belt turns its ring. Each is the median of some, the first of which does not count.
func rotate(objects int) (timeoutbench.Figures, error) {
	belt, err := hashbelt.New(hashbelt.Config[uint64, uint64]{Containers: 1})
	if err != nil {
		return nil, err
	}
	ring, err := hashbelt.NewRing[uint64, uint64](1, 0, nil)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex // the belt's own is out of reach
	call, err := fall(objects, belt.Put, belt.Get, belt.Rotate)
	if err != nil {
		return nil, err
	}
	put := func(key, value uint64) error { return ring.Add(key, value, ring.Front()) }
	get := func(key uint64) (value uint64, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		value, _, ok = ring.Get(key)
		return value, ok
	}
	var gone hashbelt.Container[uint64, uint64]
	locked, err := fall(objects, put, get, func() int {
		mu.Lock()
		gone = ring.Rotate()
		mu.Unlock()
		return objects
	})
	if err == nil && gone.Len() != objects {
		err = fmt.Errorf("%d of %d objects fell off", gone.Len(), objects)
	}
	return timeoutbench.Figures{wholeCall: call, underLock: locked}, err
}

func fall(objects int, put func(key, value uint64) error, get func(uint64) (uint64, bool), turn func() int) (float64, error) {
	var times []float64
	for range 6 {
		for n := range uint64(objects) {
			if err := put(n, n); err != nil {
				return 0, err
			}
		}
		runtime.GC()
		for n := range uint64(1000) { // others use it
			if _, ok := get(n); !ok {
				return 0, fmt.Errorf("object %d was lost", n)
			}
		}
		start := time.Now()
		fell := turn()
		times = append(times, float64(time.Since(start)))
		if fell != objects {
			return 0, fmt.Errorf("%d of %d objects fell off", fell, objects)
		}
	}
	return timeoutbench.Median(times[1:]), nil
}
