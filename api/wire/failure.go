package wire

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/txn"
)

// kinds are the names of the sentinels in messages. They are a contract.
var kinds = []struct {
	err  error
	name string
}{
	{txn.ErrInDoubt, "in-doubt"},
	{txn.ErrHeuristic, "heuristic"},
	{txn.ErrForgotten, "forgotten"},
	{txn.ErrEndedByApplication, "ended-by-application"},
	{txn.ErrRolledBack, "rolled-back"},
	{txn.ErrTimedOut, "timed-out"},
	{txn.ErrVotedNo, "voted-no"},
	{txn.ErrSessionExpired, "session-expired"},
	{txn.ErrNotFound, "not-found"},
	{txn.ErrConflict, "conflict"},
	{txn.ErrNotActive, "not-active"},
	{txn.ErrManaged, "managed"},
	{txn.ErrWaitTimeout, "wait-timeout"},
	{txn.ErrUnavailable, "unavailable"},
	{txn.ErrDenied, "denied"},
	{txn.ErrInvalid, "invalid"},
}

// FromError gives the message for an error of a coordinator. op and id are used if the error
// does not contain them. It is nil for a nil error.
func FromError(err error, op string, id txn.ID) *txmgrv1.Failure {
	if err == nil {
		return nil
	}
	err = Classify(err, op)
	f := &txmgrv1.Failure{Code: string(txn.CodeOf(err)), Message: Text(err.Error()), Op: op}
	if e := (*txn.Error)(nil); errors.As(err, &e) {
		f.State, f.Cause, f.Detail = e.State.String(), e.Cause.String(), Text(e.Detail)
		if e.Op != "" {
			f.Op = Text(e.Op)
		}
		if !e.ID.IsZero() {
			id = e.ID
		}
		f.Mark = optional(e.Mark.String())
	}
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			f.Kinds = append(f.Kinds, k.name)
		}
	}
	if r := (*RetryAfterError)(nil); errors.As(err, &r) {
		f.RetryAfter = formatDuration(r.After)
	}
	f.Id = formatID(id)
	f.Hint = (&txn.Error{ID: id, Err: err}).Hint()
	return f
}

// Classify wraps an error of a context in the sentinel that it means for the call op: in
// doubt if op [Decides], a wait timeout for a wait, else unavailable.
func Classify(err error, op string) error {
	if txn.CodeOf(err) != txn.CodeError {
		return err
	}
	if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		return err
	}
	switch {
	case Decides(op):
		return fmt.Errorf("%w: %w", txn.ErrInDoubt, err)
	case op == "wait":
		return fmt.Errorf("%w: %w", txn.ErrWaitTimeout, err)
	default:
		return fmt.Errorf("%w: %w", txn.ErrUnavailable, err)
	}
}

// Decides reports whether the call op may decide to commit, or delegate the decision to a
// branch: without its answer it is not known whether it did.
func Decides(op string) bool { return op == "commit" || op == "vote" || op == "delegate" }

// ToError gives back the error that [FromError] was given: op, id, state and
// cause, and every sentinel. It is nil for nil.
func ToError(f *txmgrv1.Failure) error {
	if f == nil {
		return nil
	}
	// A state or cause that this version does not know is left out: it must not replace the
	// error by another one.
	var state txn.State
	var cause txn.Cause
	_ = state.UnmarshalText([]byte(f.GetState()))
	_ = cause.UnmarshalText([]byte(f.GetCause()))
	id, _ := txn.ParseID(f.GetId())
	mark, _ := txn.ParseMark(f.GetMark())

	e := &txn.Error{Mark: mark, Op: f.GetOp(), ID: id, State: state, Cause: cause, Detail: f.GetDetail(), Err: sentinel(f)}
	if e.Detail == "" {
		e.Detail = detail(f, e)
	}
	after, err := time.ParseDuration(f.GetRetryAfter())
	if err == nil && after > 0 {
		return &RetryAfterError{After: after, Err: e}
	}
	return e
}

// sentinel returns the sentinel of the failure, or several joined, including those that its
// cause implies.
func sentinel(f *txmgrv1.Failure) error {
	var found error
	for _, k := range kinds {
		if !has(f.GetKinds(), k.name) || implied(f, k.err) {
			continue
		}
		if found == nil {
			found = k.err
		} else {
			found = fmt.Errorf("%w: %w", found, k.err)
		}
	}
	if found != nil {
		return found
	}
	if err := txn.Code(f.GetCode()).Sentinel(); err != nil {
		return err
	}
	return errors.New("failure without a code")
}

// implied reports whether the cause implies err: see [txn.Error.Unwrap].
func implied(f *txmgrv1.Failure, err error) bool {
	var c txn.Cause
	_ = c.UnmarshalText([]byte(f.GetCause()))
	for _, k := range []error{txn.ErrRolledBack, txn.ErrNotFound} {
		if has(f.GetKinds(), kindOf(k)) && errors.Is(&txn.Error{Cause: c, Err: k}, err) && err != k {
			return true
		}
	}
	return false
}

// kindOf returns the name of a sentinel in messages.
func kindOf(err error) string {
	for _, k := range kinds {
		if k.err == err {
			return k.name
		}
	}
	return ""
}

func has(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}

// detail returns the text of an error that was not a [txn.Error] originally, without the part
// that [txn.Error] adds itself.
func detail(f *txmgrv1.Failure, e *txn.Error) string {
	m := f.GetMessage()
	for _, said := range []string{e.Error(), e.Err.Error()} {
		if m == said {
			return ""
		}
		m = strings.TrimPrefix(m, said+": ")
	}
	return m
}

// RetryAfterError says when to retry. A coordinator may return one; it is transmitted to the
// client.
type RetryAfterError struct {
	After time.Duration
	Err   error
}

// Error returns the text of Err; After is for programs.
func (e *RetryAfterError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *RetryAfterError) Unwrap() error { return e.Err }
