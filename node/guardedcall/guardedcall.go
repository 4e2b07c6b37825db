// Package guardedcall makes one call to a participant that may hang or panic.
package guardedcall

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Do calls fn and gives it at most d. A panic is an error. An fn that ignores its
// context continues, and its answer is lost.
func Do[T any](ctx context.Context, d time.Duration, fn func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, d, fmt.Errorf("no answer within %v", d))
	type answer struct {
		value T
		err   error
	}
	answered := make(chan answer, 1)
	go func() {
		defer cancel()
		var a answer
		defer func() {
			if x := recover(); x != nil {
				a.err = fmt.Errorf("the participant panicked: %v", x)
			}
			answered <- a
		}()
		if a.value, a.err = fn(ctx); a.err != nil && errors.Is(a.err, ctx.Err()) {
			a.err = context.Cause(ctx)
		}
	}()
	select {
	case a := <-answered:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		select {
		case a := <-answered: // the context ended and fn answered at the same time
			return a.value, a.err
		default:
			return none, context.Cause(ctx)
		}
	}
}
