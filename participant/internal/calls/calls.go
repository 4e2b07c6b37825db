// Package calls names a participant in the errors of the calls to it, and ends them when it is closed.
package calls

import (
	"context"
	"errors"
	"fmt"
)

// Calls are the calls to one participant. They may be made by many goroutines at once.
type Calls struct {
	participant string
	redact      func(error) error
	closing     context.Context
	close       context.CancelCauseFunc
}

// New returns the Calls of a participant. name is its kind and name, as errors show them. redact
// removes secrets from the error of a call; nil: there are none.
func New(name string, redact func(error) error) *Calls {
	if redact == nil {
		redact = func(err error) error { return err }
	}
	c := &Calls{participant: name, redact: redact}
	c.closing, c.close = context.WithCancelCause(context.Background())
	return c
}

// Begin begins a call, of which what is a description. The context ends with ctx, and when the
// participant is closed. The caller defers fail with the address of the call's error.
func (c *Calls) Begin(ctx context.Context, what string) (_ context.Context, fail func(*error)) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.closing, func() { cancel(context.Cause(c.closing)) })
	return ctx, func(err *error) {
		if *err != nil {
			*err = fmt.Errorf("%s: %s: %w", c.participant, what, c.redact(*err))
			cause := context.Cause(ctx)
			if cause == nil {
				cause = context.Cause(c.closing) // it may not have reached ctx yet
			}
			if cause != nil && !errors.Is(*err, cause) {
				*err = fmt.Errorf("%w: %w", *err, cause)
			}
		}
		stop()
		cancel(nil)
	}
}

// Closing returns a context that ends when the participant is closed.
func (c *Calls) Closing() context.Context { return c.closing }

// Close ends all calls. Those that fail from now on say that the participant is closed.
func (c *Calls) Close() { c.close(fmt.Errorf("%s: closed", c.participant)) }
