package purgatory

import (
	"errors"

	"github.com/txmgr/txmgr/timeout/wheel/runner"
)

// Reasons why [Purgatory.Park] refuses; test for them with errors.Is. A refused request is not
// tried and not completed.
var (
	// ErrNoRequest means that the request is nil.
	ErrNoRequest = errors.New("no request")
	// ErrNoKeys means that nothing but its deadline could ever complete the request.
	ErrNoKeys = errors.New("a request watches at least one key")
	// ErrTooManyKeys means that there are more than [MaxKeys] keys.
	ErrTooManyKeys = errors.New("too many keys")
	// ErrKey means that a key differs from itself, as a NaN does: no Check could name it.
	ErrKey = errors.New("key is not equal to itself")
	// ErrStopped means that the purgatory was stopped.
	ErrStopped = errors.New("the purgatory was stopped")
)

// ErrTick is the reason why [Start] refuses: the tick of its [Config] is negative.
var ErrTick = runner.ErrTick

// ErrExpired is returned by [Purgatory.Wait] when the timeout has passed.
var ErrExpired = errors.New("the condition did not come about in time")
