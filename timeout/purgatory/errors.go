package purgatory

import (
	"errors"

	"github.com/txmgr/txmgr/timeout/wheel/runner"
)

// Reasons why [Purgatory.Park] refuses; test for them with errors.Is. What is refused is not tried and not completed.
var (
	// ErrNoRequest means that there is nothing to try.
	ErrNoRequest = errors.New("no request")
	// ErrNoKeys means that nothing could ever wake the request but its deadline.
	ErrNoKeys = errors.New("a request watches at least one key")
	// ErrTooManyKeys means that there are more than [MaxKeys] keys.
	ErrTooManyKeys = errors.New("too many keys")
	// ErrKey means that a key differs from itself, as a NaN does: nobody could name it to Check.
	ErrKey = errors.New("key is not equal to itself")
	// ErrStopped means that the purgatory was stopped.
	ErrStopped = errors.New("the purgatory was stopped")
)

// ErrTick is the reason why [Start] refuses: the tick of its [Config] is negative.
var ErrTick = runner.ErrTick

// ErrExpired is the answer of [Purgatory.Wait] to a deadline.
var ErrExpired = errors.New("the condition did not come about in time")
