package adaptive

import (
	"errors"
	"fmt"
)

// Making an optimizer or a pool, and changing its limit.
var (
	// ErrConfig is wrapped by every refusal of a configuration or a limit, together with
	// what is wrong in it.
	ErrConfig = errors.New("adaptive: invalid configuration")
)

// Submitting tasks.
var (
	// ErrTask is returned for a nil task.
	ErrTask = errors.New("adaptive: there is no task: it is nil")
	// ErrFull is returned by TrySubmit when neither a worker nor a place in the
	// queue is free. Try again later, or pass the refusal on.
	ErrFull = errors.New("adaptive: the pool is full: all workers are busy and the queue has no place")
	// ErrClosed is returned by a pool that has been closed, or is being closed. The
	// task was not run and never will be.
	ErrClosed = errors.New("adaptive: the pool is closed")
)

// Running tasks.
var (
	// ErrExited is the error of a task that ended its goroutine with runtime.Goexit,
	// as the Fatal methods of tests do. The worker is replaced.
	ErrExited = errors.New("adaptive: the task ended its goroutine")
)

// PanicError is the error of a task that panicked.
type PanicError struct {
	// Value is what was given to panic.
	Value any
	// Stack is the stack of the goroutine at that time.
	Stack []byte
}

// Error returns the value's text, without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("adaptive: the task panicked: %v", e.Value) }

// Unwrap returns the value, if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
