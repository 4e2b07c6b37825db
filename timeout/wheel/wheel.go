package wheel

import (
	"math/bits"

	"github.com/txmgr/txmgr/timeout"
	"github.com/txmgr/txmgr/timeout/heap"
)

const (
	// DefaultSize is a good number of buckets for most wheels: 4,096 ticks on two levels.
	DefaultSize = 64
	// MaxSize is the largest number of buckets that a level can have.
	MaxSize = 1 << 16

	// step is how many tasks a bucket passes down at a time when there is a choice. At some hundred
	// nanoseconds for each, a step is a small part of a millisecond.
	step = 256
)

// Wheel holds tasks and determines which of them are due.
//
// Make one with [New]; the zero Wheel is not usable. A Wheel has one owner and no lock: concurrent use needs a guard of the
// caller's. Its methods return the same for the same calls in every process.
type Wheel[T any] struct {
	now    timeout.Tick
	cursor timeout.Tick // at most now; no task in a bucket ends before it
	size   int          // tasks in all lists
	shift  uint         // log2 of the buckets of a block
	step   int
	levels [][]bucket[T]
	due    bucket[T] // what had ended when it was added
	queue  heap.Heap[*bucket[T]]
}

// New returns an empty wheel that has reached the tick now. A block of buckets has the given size, rounded up to a power
// of two that lies between 2 and [MaxSize]; 0 and less stand for [DefaultSize].
//
// A larger wheel moves its tasks down less often and takes more memory.
func New[T any](now timeout.Tick, size int) *Wheel[T] {
	if size <= 0 {
		size = DefaultSize
	}
	size = min(max(size, 2), MaxSize)
	w := &Wheel[T]{now: now, cursor: now, shift: uint(bits.Len(uint(size - 1))), step: step}
	w.due.init(w, 0)
	w.grow()
	return w
}

// Now returns the tick that the wheel has reached.
func (w *Wheel[T]) Now() timeout.Tick { return w.now }

// Len returns how many tasks wait, including those that are due and not yet taken.
func (w *Wheel[T]) Len() int { return w.size }

// Add makes a task wait until end. If that has passed, the task is due at once, behind those that are due already. Add
// reports false, and does nothing, if t is nil or waits already, in this wheel or another.
func (w *Wheel[T]) Add(t *Task[T], end timeout.Tick) bool {
	if t == nil || t.bucket != nil {
		return false
	}
	w.size++
	if end <= w.now {
		t.end = w.now
		w.due.append(t)
		return true
	}
	t.end = end
	w.place(t)
	return true
}

// Cancel ends the waiting of a task, also of one that is due and not yet taken. It reports false, and does nothing, if t
// is nil or does not wait in this wheel: it was never added, was taken, was cancelled before, or waits in another wheel.
func (w *Wheel[T]) Cancel(t *Task[T]) bool {
	if t == nil || t.bucket == nil || t.bucket.wheel != w {
		return false
	}
	w.remove(t)
	return true
}

// Advance moves Now forward to the tick to, however far; Now never moves back. Nothing is taken:
// the tasks that have ended are due from now on.
func (w *Wheel[T]) Advance(to timeout.Tick) {
	w.now = max(w.now, to)
	w.cascade()
}

// Pop takes the next task that is due and returns it, or nil if none is. Tasks can be added, cancelled, and added again
// between one Pop and the next.
func (w *Wheel[T]) Pop() *Task[T] {
	w.cascade()
	b := &w.due
	if n := w.queue.Peek(); n != nil && n.End() <= w.now && (b.count == 0 || n.End() <= b.root.next.end) {
		b = n.Value
	}
	if b.count == 0 {
		return nil
	}
	t := b.root.next
	w.remove(t)
	return t
}

// Next returns a tick before which nothing becomes due, at most Now if something is due, or false if nothing waits. It is
// never later than the first end; invariant 8 of the package doc says when it may be earlier. At such a tick Advance
// brings the next answer closer to the end.
func (w *Wheel[T]) Next() (timeout.Tick, bool) {
	n := w.queue.Peek()
	switch {
	case n == nil && w.due.count == 0:
		return 0, false
	case n == nil:
		return w.due.root.next.end, true
	case w.due.count == 0:
		return n.End(), true
	}
	return min(n.End(), w.due.root.next.end), true
}

// remove takes a task out of the list that it stands in, and a bucket that has become empty out of the delay queue.
func (w *Wheel[T]) remove(t *Task[T]) {
	b := t.bucket
	b.unlink(t)
	w.size--
	if b.count == 0 {
		w.retire(b)
	}
}
