package runner

import "errors"

// Reasons why [Start] refuses; test for them with errors.Is.
var (
	// ErrHandle means that there is no function to pass tasks to.
	ErrHandle = errors.New("a runner needs a function that takes what is due: set Config.Handle")
	// ErrTick means that the tick is negative.
	ErrTick = errors.New("a tick must be positive")
)
