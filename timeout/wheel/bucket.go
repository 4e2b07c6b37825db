package wheel

import (
	"github.com/txmgr/txmgr/timeout"
	"github.com/txmgr/txmgr/timeout/heap"
)

// bucket is a circular, doubly linked list of the tasks that end within one span of ticks.
type bucket[T any] struct {
	root  Task[T] // its links alone are used: next is the front, prev the rear
	count int
	wheel *Wheel[T]
	level int
	start timeout.Tick // the first tick of the span; undefined in an empty bucket
	early bool         // is emptied in steps, before start

	node heap.Node[*bucket[T]] // in the delay queue, at the tick at which the bucket has to be handled
}

func (b *bucket[T]) init(w *Wheel[T], level int) {
	b.root.prev, b.root.next = &b.root, &b.root
	b.wheel, b.level = w, level
	b.node.Value = b
}

// append links a task in at the rear.
func (b *bucket[T]) append(t *Task[T]) {
	rear := b.root.prev
	t.bucket, t.prev, t.next = b, rear, &b.root
	rear.next = t
	b.root.prev = t
	b.count++
}

// unlink takes a task out, wherever it stands.
func (b *bucket[T]) unlink(t *Task[T]) {
	t.prev.next, t.next.prev = t.next, t.prev
	t.bucket, t.prev, t.next = nil, nil, nil
	b.count--
}
