package call

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// UnsupportedError is the error of a participant that lacks a method which one of its
// branches needs.
type UnsupportedError struct{ what string }

// Error says what is missing, and what the operator has to do.
func (e *UnsupportedError) Error() string { return e.what }

// TimeoutError tells the operator that a call timed out, and after how long.
func TimeoutError(ctx context.Context, limit time.Duration, err error) error {
	if err == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("no answer within %v: %w", limit.Round(time.Millisecond), err)
}

// RecoverPanic, deferred, turns a panic of a participant into an error: a bug in one
// driver must not stop the other participants' work.
func RecoverPanic(err *error) {
	if x := recover(); x != nil {
		*err = fmt.Errorf("participant panicked: %v", x)
	}
}
