package txn

import (
	"errors"
	"fmt"
	"strings"
)

// Errors of the call itself.
var (
	// ErrInvalid: the call is malformed or over a limit; nothing was changed.
	ErrInvalid = errors.New("invalid argument")
	// ErrNotFound: no such transaction, branch or participant; a transaction may
	// have been forgotten after its retention time. Never means "committed".
	ErrNotFound = errors.New("not found")
	// ErrConflict: the call contradicts what is already there; nothing was changed.
	ErrConflict = errors.New("conflict")
	// ErrDenied: the caller lacks the permission.
	ErrDenied = errors.New("permission denied")
	// ErrManaged: the connection belongs to a global transaction, and the application must not
	// commit it or roll it back. A statement that would do so was not sent.
	ErrManaged = errors.New("session is managed by the global transaction")
)

// Errors about the end of a transaction.
var (
	// ErrNotActive: the transaction is decided already, so the call is refused.
	ErrNotActive = errors.New("transaction is not active")
	// ErrRolledBack: surely nothing was, or will be, applied anywhere, except by statements
	// that cannot be noticed: docs/protocol.md, "what is not covered".
	ErrRolledBack = errors.New("rolled back")
	// ErrTimedOut: the transaction's timeout passed; comes with [ErrRolledBack]. By itself it
	// is only the cause of the context of [Run] and does not say how the transaction ended.
	ErrTimedOut = errors.New("transaction timed out")
	// ErrVotedNo: a participant voted no; comes with [ErrRolledBack].
	ErrVotedNo = errors.New("participant voted no")
	// ErrSessionExpired: the client session was not renewed, or its keep-alives did not arrive;
	// comes with [ErrRolledBack] or, for a call about the session itself, with [ErrNotFound].
	ErrSessionExpired = errors.New("session expired")
	// ErrInDoubt: the outcome is not known to this caller; ask again with the id.
	ErrInDoubt = errors.New("outcome in doubt")
	// ErrForgotten: the begin of an id that the coordinator does not know, and that is older than the outcomes it
	// surely remembers. The transaction may have been committed or rolled back; nothing was begun. The error permits
	// no repetition: look at the data.
	ErrForgotten = errors.New("may have been decided and forgotten")
	// ErrHeuristic: a branch ended, or may have ended, otherwise than decided.
	ErrHeuristic = errors.New("heuristic outcome")
	// ErrEndedByApplication: statements of the application's own ended a branch behind the coordinator's back, or may
	// have: the contrary cannot be proved, as the text then says. The transaction is rolled back, but what that branch
	// did, or what its connection did afterwards, may be committed: look at the data before doing the work again.
	// Every application that takes part in the transaction, or asks for it, gets this error from when the resource has
	// reported it. It never comes with [ErrRolledBack]; it comes with [ErrHeuristic] when the branch is known to have
	// ended otherwise than decided.
	ErrEndedByApplication = errors.New("branch was, or may have been, ended by statements of the application's own")
)

// Errors of the coordinator.
var (
	// ErrUnavailable: no coordinator, no leader, or too much load; try again.
	ErrUnavailable = errors.New("unavailable")
	// ErrWaitTimeout: the wait ended before its goal was reached; the transaction goes on.
	ErrWaitTimeout = errors.New("wait timed out")
)

// Error is what the calls about one transaction return. [errors.Is] finds the sentinels above
// in it. The id is always there, so that a caller in doubt can ask again.
type Error struct {
	Op        string    // the attempted call, for example "commit"
	ID        ID        // the transaction; zero when the call names none
	State     State     // the latest known state
	Cause     Cause     // why it was rolled back, when it was
	Heuristic Heuristic // how its branches ended otherwise than decided, as far as known
	Detail    string    // details, in words; may be empty
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
		fmt.Fprintf(&b, " (state: %v, heuristic: %v)", e.State, e.Heuristic)
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

// Sentinel gives the error value of a code that was received over the network, so that
// [errors.Is] works there. It is nil for CodeOK.
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

// Wrap makes an error of a call. The sentinel of this package that err wraps becomes Err, the
// rest of its text Detail. An [*Error] is returned as it is.
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
