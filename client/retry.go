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

// transportError is a try that got no answer.
type transportError struct {
	base string
	sent bool // it may have arrived
	err  error
}

// Error says what became of the connection, and when that says little, why.
func (e *transportError) Error() string {
	switch {
	case errors.Is(e.err, syscall.ECONNREFUSED):
		return e.base + ": connection refused: no server listens at this address"
	case errors.Is(e.err, http.ErrSchemeMismatch):
		return e.base + ": the server does not speak TLS: write http:// in its address"
	}
	return fmt.Sprintf("%s: %v", e.base, e.err)
}

// Unwrap gives the error of the connection.
func (e *transportError) Unwrap() error { return e.err }

// classify tells a try without an answer from an answer that is an error. What comes
// back is a lostError or the error that the server meant.
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

// isPermanent reports whether the connection will not be made by trying again.
func isPermanent(err error) bool {
	certificate, record := (*tls.CertificateVerificationError)(nil), tls.RecordHeaderError{}
	return errors.As(err, &certificate) || errors.As(err, &record) || errors.Is(err, http.ErrSchemeMismatch) || errors.Is(err, errTLSRequired)
}

// excludedAddresses are the addresses that one call need not try again.
type excludedAddresses map[string]bool

// exclude takes the error of a try that got no answer, and reports whether no address is
// left to try.
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

// errTLSRequired: a server that speaks TLS alone was spoken to without.
var errTLSRequired = errors.New("the server speaks TLS: write https:// in its address")

// certificateRefused reports whether the other side ended the handshake because of
// what this one showed. Then nothing was read.
func certificateRefused(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error" && strings.Contains(op.Err.Error(), "certificate")
}

// retry makes a call until it has an answer that is final, or ctx ends. The
// first try costs nothing beyond itself. patience counts when ctx has no deadline.
func (c *Client) retry(ctx context.Context, timeout time.Duration, op string, id txn.ID, try func(context.Context) error) error {
	calling, trying, cancel := c.withTimeouts(ctx, timeout)
	defer cancel()
	return c.retryUntil(trying, op, id, func() error { return try(calling) })
}

// withTimeouts bounds a call that has no deadline: a try may take as long as patience, and
// may begin until the time of any call is over. Who asks participants is worth waiting
// for, and a cluster without a leader is not.
func (c *Client) withTimeouts(ctx context.Context, timeout time.Duration) (calling, trying context.Context, cancel func()) {
	if _, has := ctx.Deadline(); has {
		return ctx, ctx, func() {}
	}
	calling, over := context.WithTimeout(ctx, timeout)
	trying, enough := context.WithTimeout(ctx, min(timeout, c.cfg.RequestTimeout))
	return calling, trying, func() {
		over()
		enough()
	}
}

// retryUntil is [Client.retry] for a context that surely ends.
func (c *Client) retryUntil(ctx context.Context, op string, id txn.ID, try func() error) error {
	maybe := false // some try may have been carried out
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

// mostRelevantError is the error to tell of when time runs out.
type mostRelevantError struct {
	err      error
	fromNode bool // by a node
}

// observe takes the error of a try. That time ran out says less than what went wrong
// before, and that nobody listens at one address less than what a node at another says.
func (w *mostRelevantError) observe(ctx context.Context, err error) {
	l := (*transportError)(nil)
	lost := errors.As(err, &l)
	if w.err == nil || ctx.Err() == nil && !(w.fromNode && lost && !l.sent) {
		w.err, w.fromNode = err, !lost
	}
}

// isRetryable reports whether an answer is worth a repetition: nothing was done, or
// the node itself does not know what was.
func isRetryable(err error) bool {
	return errors.Is(err, txn.ErrUnavailable) || errors.Is(err, txn.ErrInDoubt) && !errors.Is(err, txn.ErrHeuristic)
}

// backoff is how long to wait after the nth failure: full jitter, and at least
// what the server asked for.
func backoff(n int, err error) time.Duration {
	ceiling := min(firstBackoff<<min(n, 10), maxBackoff)
	if r := (*wire.RetryAfterError)(nil); errors.As(err, &r) {
		return r.After + rand.N(min(ceiling, max(r.After, firstBackoff)))
	}
	return rand.N(ceiling)
}

// sleep reports whether there is time left after d. It does not wait for an end
// that comes sooner.
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
		return true // the next try finds the client closed
	}
}

// deadlineError is the error of a call whose time is over: what ended it, and what went
// wrong last. That a node did not know what it had done is no doubt of the caller's
// unless the call decides, which [noResponseError] sees to.
func deadlineError(ctx context.Context, last error) error {
	cause := ctx.Err()
	if cause == nil {
		cause = context.DeadlineExceeded // the next try would have come after it
	}
	if errors.Is(last, txn.ErrInDoubt) {
		last = errors.New(last.Error())
	}
	return fmt.Errorf("%w: %w: %w", txn.ErrUnavailable, cause, last)
}

// isInconclusive reports whether an answer leaves open what became of an earlier try of
// the same call: the transaction may have been decided by it and been forgotten since,
// or the caller may have lost its rights in between.
func isInconclusive(err error) bool {
	return errors.Is(err, txn.ErrNotFound) || errors.Is(err, txn.ErrDenied)
}

// idempotentDeletes are the calls that do not find a second time what they were about.
var idempotentDeletes = map[string]bool{"remove": true, "remove participant": true, "revoke token": true}

// notFoundAfterRetry explains why a call that was made n times before does not find what it
// was to take away.
func notFoundAfterRetry(op string, n int, err error) error {
	e, ok := err.(*txn.Error)
	if !ok || n == 0 || !idempotentDeletes[op] || !errors.Is(err, txn.ErrNotFound) {
		return err
	}
	told := *e
	told.Detail = strings.TrimPrefix(told.Detail+"; an earlier try had no answer, and may have done it", "; ")
	return &told
}

// noResponseError is the error of a call that got no answer: in doubt for a decision
// that may have arrived, else unavailable.
func noResponseError(op string, id txn.ID, maybe bool, err error) error {
	if maybe && wire.Decides(op) {
		err = &inDoubtError{err}
	}
	return newError(op, id, err)
}

// inDoubtError stands for [txn.ErrInDoubt]. What it wraps is why nobody knows:
// the text keeps it, but it is not unavailability that the caller has to handle.
type inDoubtError struct{ why error }

// Error says that the outcome is not known, and why.
func (e *inDoubtError) Error() string { return txn.ErrInDoubt.Error() + ": " + e.why.Error() }

// Is makes it [txn.ErrInDoubt], and what ended the context.
func (e *inDoubtError) Is(target error) bool {
	return target == txn.ErrInDoubt ||
		(target == context.Canceled || target == context.DeadlineExceeded) && errors.Is(e.why, target)
}

// finalError gives an answer of the server the form of every error here.
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
