package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"connectrpc.com/connect"

	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/txn"
)

const (
	firstBackoff = 10 * time.Millisecond
	maxBackoff   = time.Second
)

// transportError is the error of a try that got no answer.
type transportError struct {
	base string
	sent bool // the call may have arrived
	err  error
}

// Error says what became of the connection and, if that is not specific, why.
func (e *transportError) Error() string {
	switch {
	case errors.Is(e.err, syscall.ECONNREFUSED):
		return e.base + ": connection refused: no server listens at this address"
	case errors.Is(e.err, http.ErrSchemeMismatch):
		return e.base + ": the server does not speak TLS: write http:// in its address"
	}
	return fmt.Sprintf("%s: %v", e.base, e.err)
}

// Unwrap returns the error of the connection.
func (e *transportError) Unwrap() error { return e.err }

// classify tells a try without an answer from an answer that is an error. It returns a
// [transportError] or the error that the server sent.
func classify(base string, sent bool, err error) error {
	if certificateRefused(err) {
		return fmt.Errorf("%w: %s does not accept the certificate of this client, or its lack of one: %w", txn.ErrDenied, base, err)
	}
	var ce *connect.Error
	if errors.As(err, &ce) && ce.Meta().Get(wire.HeaderCode) == "" {
		switch ce.Code() {
		case connect.CodeUnavailable, connect.CodeCanceled, connect.CodeDeadlineExceeded, connect.CodeInternal, connect.CodeUnknown:
			if len(ce.Details()) == 0 {
				return &transportError{base: base, sent: sent && !errors.Is(err, errTLSRequired), err: errors.Unwrap(ce)}
			}
		}
	}
	return wire.FromConnect(err)
}

func isTransportError(err error) bool {
	l := (*transportError)(nil)
	return errors.As(err, &l)
}

// isPermanent reports whether a retry cannot establish the connection.
func isPermanent(err error) bool {
	certificate, record := (*tls.CertificateVerificationError)(nil), tls.RecordHeaderError{}
	return errors.As(err, &certificate) || errors.As(err, &record) || errors.Is(err, http.ErrSchemeMismatch) || errors.Is(err, errTLSRequired)
}

// excludedAddresses are the addresses that one call does not retry.
type excludedAddresses map[string]bool

// exclude records the address of a try that got no answer, if a retry there is useless, and
// reports whether no address is left to try.
func (v *excludedAddresses) exclude(c *Client, l *transportError) bool {
	if l.sent || !isPermanent(l) && (!c.cfg.FailFast || c.reached.Load()) {
		return false
	}
	if *v == nil {
		*v = excludedAddresses{}
	}
	(*v)[l.base] = true
	for _, e := range c.endpoints {
		if !(*v)[e.base] {
			return false
		}
	}
	return true
}

// errTLSRequired: the address is http, but the server accepts TLS only.
var errTLSRequired = errors.New("the server speaks TLS: write https:// in its address")

// certificateRefused reports whether the server ended the handshake because of the client's
// certificate. Then nothing was read.
func certificateRefused(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error" && strings.Contains(op.Err.Error(), "certificate")
}

// retry makes a call until it has a final answer, or ctx ends. The first try has no overhead.
// timeout applies if ctx has no deadline.
func (c *Client) retry(ctx context.Context, timeout time.Duration, op string, id txn.ID, try func(context.Context) error) error {
	calling, trying, cancel := c.withTimeouts(ctx, timeout)
	defer cancel()
	return c.retryUntil(trying, op, id, func() error { return try(calling) })
}

// withTimeouts bounds a call that has no deadline: a try may take as long as timeout, but no
// try begins after RequestTimeout. A call that fans out to participants may take long; a
// cluster without a leader should fail sooner.
func (c *Client) withTimeouts(ctx context.Context, timeout time.Duration) (calling, trying context.Context, cancel func()) {
	if _, has := ctx.Deadline(); has {
		return ctx, ctx, func() {}
	}
	calling, over := context.WithTimeout(ctx, timeout)
	if timeout <= c.cfg.RequestTimeout {
		return calling, calling, over
	}
	trying, enough := context.WithTimeout(ctx, c.cfg.RequestTimeout)
	return calling, trying, func() {
		over()
		enough()
	}
}

// retryUntil is [Client.retry] for a context that has a deadline.
func (c *Client) retryUntil(ctx context.Context, op string, id txn.ID, try func() error) error {
	maybe := false // some try may have been executed
	var last mostRelevantError
	var excluded excludedAddresses
	for n := 0; ; n++ {
		err := try()
		if err == nil {
			c.reached.CompareAndSwap(false, true)
			return nil
		}
		last.observe(ctx, err)
		l := (*transportError)(nil)
		noAnswer := errors.As(err, &l)
		maybe = maybe || noAnswer && l.sent || errors.Is(err, txn.ErrInDoubt)
		if !noAnswer {
			c.reached.CompareAndSwap(false, true)
		}
		switch {
		case !noAnswer && !isRetryable(err):
			if maybe && wire.Decides(op) && isInconclusive(err) {
				return noResponseError(op, id, maybe, fmt.Errorf("an earlier try may have been carried out, and now the answer is: %w", err))
			}
			return finalError(op, id, notFoundAfterRetry(op, n, err))
		case c.ctx.Err() != nil:
			return noResponseError(op, id, maybe, errClosed)
		case noAnswer && excluded.exclude(c, l):
			return noResponseError(op, id, maybe, fmt.Errorf("%w: %w", txn.ErrUnavailable, err))
		}
		if !c.sleep(ctx, backoff(n, err)) {
			return noResponseError(op, id, maybe, deadlineError(ctx, last.err))
		}
	}
}

// mostRelevantError is the error to report when time runs out.
type mostRelevantError struct {
	err      error
	fromNode bool // it is the answer of a node
}

// observe records the error of a try. An expired deadline is less relevant than an error
// before it, and an address without a listener less than the answer of a node at another.
func (w *mostRelevantError) observe(ctx context.Context, err error) {
	l := (*transportError)(nil)
	lost := errors.As(err, &l)
	if w.err == nil || ctx.Err() == nil && !(w.fromNode && lost && !l.sent) {
		w.err, w.fromNode = err, !lost
	}
}

// isRetryable reports whether an answer justifies a retry: nothing was done, or the node
// itself does not know what was.
func isRetryable(err error) bool {
	return errors.Is(err, txn.ErrUnavailable) || errors.Is(err, txn.ErrInDoubt) && !errors.Is(err, txn.ErrHeuristic)
}

// backoff is how long to wait after the nth failure: full jitter, and at least the time that
// the server asked for.
func backoff(n int, err error) time.Duration {
	ceiling := min(firstBackoff<<min(n, 10), maxBackoff)
	if r := (*wire.RetryAfterError)(nil); errors.As(err, &r) {
		return r.After + rand.N(min(ceiling, max(r.After, firstBackoff)))
	}
	return rand.N(ceiling)
}

// sleep waits for d and reports whether there is time left after it. It returns at once if
// the context ends sooner.
func (c *Client) sleep(ctx context.Context, d time.Duration) bool {
	if until, has := ctx.Deadline(); has && time.Until(until) <= d || ctx.Err() != nil {
		return false
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	case <-c.ctx.Done():
		return true // the next try reports that the client is closed
	}
}

// deadlineError is the error of a call whose time has expired: what ended it, and its most
// relevant error. A node's "in doubt" is not the caller's unless the call decides, which
// [noResponseError] handles.
func deadlineError(ctx context.Context, last error) error {
	cause := ctx.Err()
	if cause == nil {
		cause = context.DeadlineExceeded // the next try would have begun after the deadline
	}
	if errors.Is(last, txn.ErrInDoubt) {
		last = errors.New(last.Error())
	}
	return fmt.Errorf("%w: %w: %w", txn.ErrUnavailable, cause, last)
}

// isInconclusive reports whether an answer leaves the effect of an earlier try of the same
// call open: that try may have decided the transaction, which has been forgotten since, or
// the caller's token may have been revoked in between.
func isInconclusive(err error) bool {
	return errors.Is(err, txn.ErrNotFound) || errors.Is(err, txn.ErrDenied)
}

// idempotentDeletes are the calls whose repetition finds nothing to delete.
var idempotentDeletes = map[string]bool{"remove": true, "remove participant": true, "revoke token": true}

// notFoundAfterRetry explains why a call that was already made n times does not find what it
// was to delete.
func notFoundAfterRetry(op string, n int, err error) error {
	e, ok := err.(*txn.Error)
	if !ok || n == 0 || !idempotentDeletes[op] || !errors.Is(err, txn.ErrNotFound) {
		return err
	}
	told := *e
	told.Detail = strings.TrimPrefix(told.Detail+"; an earlier try had no answer, and may have done it", "; ")
	return &told
}

// noResponseError is the error of a call that got no answer: in doubt for a decision that may
// have arrived, else unavailable.
func noResponseError(op string, id txn.ID, maybe bool, err error) error {
	if maybe && wire.Decides(op) {
		err = &inDoubtError{err}
	}
	return newError(op, id, err)
}

// inDoubtError is [txn.ErrInDoubt]. It hides the type of the error that it wraps: the text
// keeps it, but the caller must not handle it as unavailability.
type inDoubtError struct{ why error }

// Error says that the outcome is not known, and why.
func (e *inDoubtError) Error() string { return txn.ErrInDoubt.Error() + ": " + e.why.Error() }

// Is matches [txn.ErrInDoubt] and the errors of a context.
func (e *inDoubtError) Is(target error) bool {
	return target == txn.ErrInDoubt ||
		(target == context.Canceled || target == context.DeadlineExceeded) && errors.Is(e.why, target)
}

// finalError converts an error of the server into the form of every error here.
func finalError(op string, id txn.ID, err error) error {
	if r := (*wire.RetryAfterError)(nil); errors.As(err, &r) {
		err = r.Err
	}
	if e, ok := err.(*txn.Error); ok {
		if e.ID.IsZero() {
			e.ID = id
		}
		return e
	}
	return newError(op, id, err)
}
