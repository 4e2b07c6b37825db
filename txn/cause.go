package txn

import (
	"errors"
	"fmt"
	"slices"
)

// uncertainErrs are the sentinels with which something may be applied.
var uncertainErrs = []error{ErrInDoubt, ErrHeuristic, ErrForgotten, ErrEndedByApplication}

// retrySafeErrs are [ErrRolledBack], which permits doing the work again, and the sentinels of
// causes, which are read as if they did. None of them comes with one that is uncertain.
var retrySafeErrs = []error{ErrRolledBack, ErrTimedOut, ErrVotedNo, ErrSessionExpired}

// sentinel is that of the cause, nil when there is none.
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

// Unwrap makes the sentinel and those of the hazard and of the cause visible to
// [errors.Is]. That of the cause comes with [ErrRolledBack] alone, or, of a client's
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

// withCause is the end of a transaction with what led there, which may be an error of
// another transaction, or of a call on the way: that one's end is not this one's, and
// its cause permits nothing where this one is not surely rolled back.
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

// maskErrors is all that an error is, but for some sentinels.
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

// Error says all that the error says.
func (r *maskedError) Error() string { return r.err.Error() }

// Is finds what is left of the error.
func (r *maskedError) Is(target error) bool {
	return !slices.Contains(r.masked, target) && errors.Is(r.err, target)
}

// As finds everything: a type is no claim.
func (r *maskedError) As(target any) bool { return errors.As(r.err, target) }
