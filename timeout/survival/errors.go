package survival

import "errors"

// Reasons why [NewIndex] refuses; test for them with errors.Is.
var (
	// ErrTimeout means that the transaction's timeout is zero or negative.
	ErrTimeout = errors.New("timeout must be positive")
	// ErrInterval means that the interval of the timeout thread is zero or negative.
	ErrInterval = errors.New("interval must be positive")
	// ErrUntilNext means that the time until the next invocation is negative or longer than the interval.
	ErrUntilNext = errors.New("time until the next invocation must lie between zero and the interval")
	// ErrOverflow means that the number of invocations does not fit an int64.
	ErrOverflow = errors.New("number of invocations out of range")
)
