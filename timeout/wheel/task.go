package wheel

import "github.com/txmgr/txmgr/timeout"

// Task waits for a tick. Its owner makes it, alone or inside of a larger struct, and does not move
// it: a copy of a waiting task does not wait. The zero Task waits nowhere.
//
// While it waits, the wheel reads and writes it, so the guard of the wheel guards its tasks. A task
// that was taken or cancelled can be added again, and keeps nothing of the wheel from the garbage
// collector.
type Task[T any] struct {
	// Value is the owner's. The wheel does not read it.
	Value T

	end        timeout.Tick
	bucket     *bucket[T] // nil: it does not wait
	prev, next *Task[T]
}

// End returns the tick at which the task is due, or was when it waited last. It is later than
// requested if that had passed already.
func (t *Task[T]) End() timeout.Tick { return t.end }

// Queued reports whether the task waits in a wheel: it was added, and neither taken nor cancelled since.
func (t *Task[T]) Queued() bool { return t.bucket != nil }
