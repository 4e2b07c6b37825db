package txn

import (
	"errors"
	"fmt"
	"slices"
)

// uncertainErrs are the sentinels with which part of the work may be applied.
var uncertainErrs = []error{ErrInDoubt, ErrHeuristic, ErrForgotten, ErrEndedByApplication}

// retrySafeErrs are [ErrRolledBack], which permits doing the work again, and the sentinels of
// causes, which callers read as if they permitted it. None of them comes with an uncertain one.
var retrySafeErrs = []error{ErrRolledBack, ErrTimedOut, ErrVotedNo, ErrSessionExpired}

// sentinel is the sentinel of the cause, nil when there is none.
func (c Cause) sentinel() error {
	switch c {
	case CauseTimeout:
		return ErrTimedOut
	case CauseVoteNo:
		return ErrVotedNo
	case CauseSessionExpired:
		return ErrSessionExpired
	}
	return nil
}

// Unwrap makes the sentinel and those of the heuristic outcome and of the cause visible to
// [errors.Is]. The sentinel of the cause comes with [ErrRolledBack] alone, or, for a client
// session, with [ErrNotFound].
func (e *Error) Unwrap() []error {
	errs := []error{e.Err}
	if e.Heuristic != 0 {
		errs = append(errs, ErrHeuristic)
	}
	if e.Heuristic != 0 || isAny(e.Err, uncertainErrs) {
		errs[0] = maskErrors(e.Err, retrySafeErrs...)
		return errs
	}
	if c := e.Cause.sentinel(); c != nil && (errors.Is(e.Err, ErrRolledBack) || c == ErrSessionExpired && errors.Is(e.Err, ErrNotFound)) {
		errs = append(errs, c)
	}
	return errs
}

// withCause adds to the end of a transaction the error that led to it. That may be an error of
// another transaction, or of a call on the way: the end of that one is not the end of this one,
// and its cause permits no repetition where this one is not surely rolled back.
func withCause(end, why error) error {
	not := uncertainErrs
	if !errors.Is(end, ErrRolledBack) {
		not = slices.Clone(retrySafeErrs)
		for _, other := range []error{ErrInDoubt, ErrEndedByApplication} {
			if !errors.Is(end, other) {
				not = append(not, other)
			}
		}
	}
	return fmt.Errorf("%w: %w", end, maskErrors(why, not...))
}

func isAny(err error, sentinels []error) bool {
	return slices.ContainsFunc(sentinels, func(s error) bool { return errors.Is(err, s) })
}

// maskErrors is err without the sentinels not, and with everything else that it wraps.
func maskErrors(err error, not ...error) error {
	if !isAny(err, not) {
		return err
	}
	return &maskedError{err, not}
}

type maskedError struct {
	err    error
	masked []error
}

// Error is the text of the whole error.
func (r *maskedError) Error() string { return r.err.Error() }

// Is finds the sentinels that are not masked.
func (r *maskedError) Is(target error) bool {
	return !slices.Contains(r.masked, target) && errors.Is(r.err, target)
}

// As finds every type: a type promises nothing about the outcome.
func (r *maskedError) As(target any) bool { return errors.As(r.err, target) }
