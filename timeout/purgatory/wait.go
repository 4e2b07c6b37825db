package purgatory

import (
	"context"
	"fmt"
	"time"
)

// Wait parks the calling goroutine until try reports true, for callers that have a goroutine to
// spare. It returns nil if try has, [ErrExpired] if timeout has passed first, [ErrStopped] if the
// purgatory was stopped, an error that wraps the cause of ctx if that has ended, or the error with
// which Park refuses. When Wait returns, try is not running and will not be called, so what it has
// written can be read.
//
// try is the TryComplete of a [Request].
func (p *Purgatory[K]) Wait(ctx context.Context, try func() bool, timeout time.Duration, keys ...K) error {
	if try == nil {
		return ErrNoRequest
	}
	w := waiter{try: try, ended: make(chan Outcome, 1)}
	r, err := p.Park(w, timeout, keys...)
	if err != nil {
		return err
	}
	var how Outcome
	select {
	case how = <-w.ended:
	case <-ctx.Done():
		r.Cancel()
		how = <-w.ended
	}
	switch how {
	case Satisfied:
		return nil
	case Cancelled:
		return fmt.Errorf("the wait was given up: %w", context.Cause(ctx))
	case Stopped:
		return ErrStopped
	default:
		return ErrExpired
	}
}

// waiter is the request of a goroutine that waits.
type waiter struct {
	try   func() bool
	ended chan Outcome // capacity 1
}

func (w waiter) TryComplete() bool    { return w.try() }
func (w waiter) Complete(how Outcome) { w.ended <- how }
