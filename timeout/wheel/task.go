package wheel

import "github.com/txmgr/txmgr/timeout"

// Task is something that waits for a tick. Its owner makes it, alone or inside of something larger, and keeps it where it
// is: a copy of a task that waits does not wait. The zero Task waits nowhere.
//
// While it waits, the wheel reads and writes it, so whoever guards the wheel guards its tasks. A task that was taken or
// cancelled can be added again, and holds nothing of the wheel back from the garbage collector.
type Task[T any] struct {
	// Value is the owner's. The wheel does not look at it.
	Value T

	end        timeout.Tick
	bucket     *bucket[T] // nil: it does not wait
	prev, next *Task[T]
}

// End returns the tick at which the task is due, or was when it waited last. It is later than what was asked for if that
// had passed already.
func (t *Task[T]) End() timeout.Tick { return t.end }

// Queued reports whether the task waits in a wheel: it was added, and neither taken nor cancelled since.
func (t *Task[T]) Queued() bool { return t.bucket != nil }
