package txn

import (
	"errors"
	"fmt"
	"strings"
)

// What can be wrong with the call itself.
var (
	// ErrInvalid: the call is malformed or over a limit; nothing was changed.
	ErrInvalid = errors.New("invalid argument")
	// ErrNotFound: no such transaction, branch or participant; a transaction may
	// have been forgotten after its retention time. Never means "committed".
	ErrNotFound = errors.New("not found")
	// ErrConflict: the call contradicts what is already there; nothing was changed.
	ErrConflict = errors.New("conflict")
	// ErrDenied: the caller may not do this.
	ErrDenied = errors.New("permission denied")
	// ErrManaged: the session belongs to a global transaction and must not be
	// committed or rolled back by hand. A statement that would do so was not sent.
	ErrManaged = errors.New("session is managed by the global transaction")
)

// How a transaction can end, or fail to.
var (
	// ErrNotActive: the transaction is decided already, so the call is refused.
	ErrNotActive = errors.New("transaction is not active")
	// ErrRolledBack: surely nothing was, or will be, applied anywhere, except by what
	// cannot be noticed: docs/protocol.md, Hazards, "what is not covered".
	ErrRolledBack = errors.New("rolled back")
	// ErrTimedOut: the transaction's time was over; comes with [ErrRolledBack]. By
	// itself it is the cause of the context of [Run], and no end.
	ErrTimedOut = errors.New("transaction timed out")
	// ErrVotedNo: a participant voted no; comes with [ErrRolledBack].
	ErrVotedNo = errors.New("participant voted no")
	// ErrSessionExpired: the client's session went silent, or was not heard; comes
	// with [ErrRolledBack] or, of the session itself, with [ErrNotFound].
	ErrSessionExpired = errors.New("session expired")
	// ErrInDoubt: the outcome is not known to this caller; ask again with the id.
	ErrInDoubt = errors.New("outcome in doubt")
	// ErrForgotten: the begin of an id that the coordinator does not know, and that is
	// older than what it surely remembers. The transaction may have been committed or
	// rolled back; nothing was begun. It permits no repetition: look at the data.
	ErrForgotten = errors.New("may have been decided and forgotten")
	// ErrHeuristic: a branch ended, or may have ended, otherwise than decided.
	ErrHeuristic = errors.New("hazard")
	// ErrEndedByApplication: statements of the application's own ended a branch, past the
	// coordinator, or may have: the contrary cannot be proved, as the text says then.
	// The transaction is rolled back, but what that branch did, or what
	// its session did afterwards, may be committed: look at the data before doing the
	// work again. It is told to everybody who takes part in the transaction, or asks
	// for it, from when its session has said so on. Never comes with [ErrRolledBack];
	// comes with [ErrHeuristic] when the branch is known to have ended otherwise than
	// decided.
	ErrEndedByApplication = errors.New("branch was, or may have been, ended by statements of the application's own")
)

// What can be wrong with the coordinator.
var (
	// ErrUnavailable: no coordinator, no leader, or too much load; try again.
	ErrUnavailable = errors.New("unavailable")
	// ErrWaitTimeout: waiting ended first; the transaction goes on.
	ErrWaitTimeout = errors.New("wait timed out")
)

// Error is what the calls about one transaction return. [errors.Is] finds the
// sentinels above in it; the id is always there, so that a caller in doubt can
// ask again.
type Error struct {
	Op        string    // the attempted call, for example "commit"
	ID        ID        // the transaction; zero when the call names none
	State     State     // where it is now, as far as known
	Cause     Cause     // why it was rolled back, when it was
	Heuristic Heuristic // how its branches ended otherwise than decided, as far as known
	Detail    string    // what exactly, for people; may be empty
	Mark      Mark      // of [ErrForgotten]: the one to make a new id with
	Err       error     // a sentinel of this package
}

// Error says what was tried on which transaction, what went wrong, and why.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if !e.ID.IsZero() {
		b.WriteString(" " + e.ID.String())
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	if e.Cause != 0 {
		fmt.Fprintf(&b, " (cause: %v)", e.Cause)
	}
	if e.Heuristic != 0 {
		fmt.Fprintf(&b, " (state: %v, hazard: %v)", e.State, e.Heuristic)
	}
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	return b.String()
}

// Code is the machine-readable name of an error in the API and the JSON output.
type Code string

// The codes, in the order of the exit codes of the command line.
const (
	CodeOK          Code = "OK"
	CodeError       Code = "ERROR"
	CodeUsage       Code = "USAGE"
	CodeRolledBack  Code = "ROLLED_BACK"
	CodeInDoubt     Code = "IN_DOUBT"
	CodeNotFound    Code = "NOT_FOUND"
	CodeConflict    Code = "CONFLICT"
	CodeTimedOut    Code = "TIMED_OUT"
	CodeUnavailable Code = "UNAVAILABLE"
	CodeDenied      Code = "DENIED"
	CodeUnhealthy   Code = "UNHEALTHY"
)

var codes = []struct {
	err  error
	code Code
}{
	{ErrInDoubt, CodeInDoubt},
	{ErrHeuristic, CodeInDoubt},
	{ErrForgotten, CodeInDoubt},
	{ErrEndedByApplication, CodeInDoubt},
	{ErrRolledBack, CodeRolledBack},
	{ErrNotFound, CodeNotFound},
	{ErrConflict, CodeConflict},
	{ErrNotActive, CodeConflict},
	{ErrManaged, CodeConflict},
	{ErrWaitTimeout, CodeTimedOut},
	{ErrUnavailable, CodeUnavailable},
	{ErrDenied, CodeDenied},
	{ErrInvalid, CodeUsage},
}

// CodeOf gives the code of an error: CodeOK for nil, CodeError for an error
// without a sentinel of this package.
func CodeOf(err error) Code {
	if err == nil {
		return CodeOK
	}
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	return CodeError
}

// Sentinel gives an error value for a code received from elsewhere, so that
// [errors.Is] works across the network. It is nil for CodeOK.
func (c Code) Sentinel() error {
	switch c {
	case CodeOK:
		return nil
	case CodeError, CodeUnhealthy:
		return errors.New(strings.ToLower(string(c)))
	}
	for _, k := range codes {
		if k.code == c {
			return k.err
		}
	}
	if c == CodeUsage {
		return ErrInvalid
	}
	return fmt.Errorf("unknown code %q", clip(string(c)))
}

// Wrap makes an error of a call. What err wraps of this package's sentinels
// becomes Err, the rest of its text Detail. An [*Error] is given back as it is.
func Wrap(op string, id ID, err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return &Error{Op: op, ID: id, Err: &classified{c.err, err}, Detail: strings.TrimPrefix(strings.TrimPrefix(err.Error(), c.err.Error()), ": ")}
		}
	}
	return &Error{Op: op, ID: id, Err: err}
}

// classified shows an error as its sentinel and keeps the rest for [errors.Is].
type classified struct{ sentinel, err error }

func (c *classified) Error() string   { return c.sentinel.Error() }
func (c *classified) Unwrap() []error { return []error{c.sentinel, c.err} }
