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

// kinds are the names under which the sentinels travel. They are a contract.
var kinds = []struct {
	err  error
	name string
}{
	{txn.ErrInDoubt, "in-doubt"},
	{txn.ErrHeuristic, "hazard"},
	{txn.ErrForgotten, "forgotten"},
	{txn.ErrEndedByApplication, "ended-by-hand"},
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

// FromError gives the message for an error of a coordinator. op and id are used
// where the error itself does not say them. It is nil for a nil error.
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
	f.Next = (&txn.Error{ID: id, Err: err}).Hint()
	return f
}

// Classify gives an error of a context the sentinel that it means for the call
// op: one that [Decides] may have decided, anything else may be tried again.
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

// Decides reports whether the call op may decide to commit, or leave the decision
// to a branch: without its answer nobody knows whether it did.
func Decides(op string) bool { return op == "commit" || op == "vote" || op == "delegate" }

// ToError gives back the error that [FromError] was given: op, id, state and
// cause, and every sentinel. It is nil for nil.
func ToError(f *txmgrv1.Failure) error {
	if f == nil {
		return nil
	}
	// A state or cause that this version does not know is left out rather than
	// made an error in the place of the error.
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

// sentinel finds the sentinel, or the several, that the failure is. Those that
// follow from the cause come back with it.
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

// implied reports whether the cause brings err with it: see [txn.Error.Unwrap].
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

// kindOf gives the name under which a sentinel travels.
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

// detail keeps the text of an error that was not a [txn.Error] to begin with,
// without what [txn.Error] says itself.
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

// RetryAfterError says when to try again. A coordinator may return one; it goes
// over the wire and comes back.
type RetryAfterError struct {
	After time.Duration
	Err   error
}

// Error says what the error says; After is for programs.
func (e *RetryAfterError) Error() string { return e.Err.Error() }

// Unwrap gives the error.
func (e *RetryAfterError) Unwrap() error { return e.Err }
