package adaptive

import "errors"

// Making an optimizer or a pool.
var (
	// ErrConfig is wrapped by every refusal of a configuration, beside what is wrong in it.
	ErrConfig = errors.New("adaptive: invalid configuration")
)

// Handing over tasks.
var (
	// ErrFull is the answer of TrySubmit when neither a worker nor a place in the
	// queue is free. Try again later, or pass the refusal on.
	ErrFull = errors.New("adaptive: the pool is full")
	// ErrClosed is the answer of a pool that has been closed, or is being closed.
	ErrClosed = errors.New("adaptive: the pool is closed")
)
