package forward

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/server/pipeline"
	"github.com/txmgr/txmgr/txn"
)

// forwardGrace is how long the former leader may take to answer a forwarded call when another
// node leads. forwardMargin is added to the time that the client gave, because the leader's
// response is more precise than a timeout here.
const (
	forwardGrace  = time.Second
	forwardMargin = 500 * time.Millisecond
)

// boundLifetime cancels the call when its client's deadline has passed, or when a condition
// of the call no longer holds. The caller has to call release.
func (f *proxyCall) boundLifetime() (release func()) {
	var timers []*time.Timer
	if !f.Method.Bidi && !f.Method.Stream {
		timers = append(timers, time.AfterFunc(f.timeout(), func() { f.cancel(context.DeadlineExceeded) }))
	}
	grace := make(chan *time.Timer, 1)
	stop := context.AfterFunc(f.Lifetime, func() {
		cause := context.Cause(f.Lifetime)
		switch {
		case cause != f.forwarder.cfg.Draining:
			grace <- time.AfterFunc(forwardGrace, func() { f.cancel(cause) })
		case f.Method.EndsAtDrain:
			f.cancel(cause)
		}
	})
	return func() {
		stop()
		select {
		case t := <-grace:
			t.Stop()
		default: // a timer set after this has no effect: the call has ended
		}
		for _, t := range timers {
			t.Stop()
		}
	}
}

// timeout is how long to wait for a response: as long as the client does, plus forwardMargin.
func (f *proxyCall) timeout() time.Duration {
	limit := f.Timeout
	if d, ok := timeoutOf(f.Request.Header); ok {
		limit = min(d, f.MaxTimeout)
	}
	return limit + forwardMargin
}

// timeoutOf reads the timeout that a client sends, in the form of connect or of gRPC.
func timeoutOf(h http.Header) (time.Duration, bool) {
	if n, err := strconv.ParseUint(h.Get("Connect-Timeout-Ms"), 10, 33); err == nil {
		return time.Duration(n) * time.Millisecond, true
	}
	s := h.Get("Grpc-Timeout")
	if len(s) < 2 || len(s) > 9 {
		return 0, false
	}
	unit, ok := map[byte]time.Duration{
		'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond,
	}[s[len(s)-1]]
	n, err := strconv.ParseUint(s[:len(s)-1], 10, 32)
	if !ok || err != nil {
		return 0, false
	}
	if time.Duration(n) > time.Hour/unit {
		return time.Hour, true // longer than any call may take
	}
	return time.Duration(n) * unit, true
}

// request builds the request to the leader.
func (f *proxyCall) request(api string) (*http.Request, error) {
	to, err := url.Parse(api)
	if err != nil || to.Host == "" {
		return nil, fmt.Errorf("%w: the node that leads is at %q, which is no URL", txn.ErrUnavailable, api)
	}
	in := f.Request
	body, size, err := f.body(in)
	if err != nil {
		return nil, err
	}
	ctx := httptrace.WithClientTrace(f.ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { f.sent.Store(true) }})
	out := (&http.Request{
		Method: in.Method,
		URL:    &url.URL{Scheme: to.Scheme, Host: to.Host, Path: strings.TrimSuffix(to.Path, "/") + in.URL.Path, RawQuery: in.URL.RawQuery},
		// The host that the client used: the leader compares it with the Origin header.
		Host:          in.Host,
		Header:        forwardHeaders(in.Header),
		Body:          body,
		ContentLength: size,
	}).WithContext(ctx)
	if strings.Contains(in.Header.Get("Te"), "trailers") {
		out.Header.Set("Te", "trailers")
	}
	out.Header.Set(wire.HeaderForwarded, f.forwarder.nodeName())
	return out, nil
}

// body returns the body to send to the leader. It is read completely first, so that a slow
// client occupies nothing on the leader; the body of a Pipe is streamed.
func (f *proxyCall) body(in *http.Request) (io.ReadCloser, int64, error) {
	if f.Method.Bidi {
		reading := pipeline.NewReadAborter(f.rc)
		stop := context.AfterFunc(f.Lifetime, reading.Abort)
		return &clientStream{ReadCloser: in.Body, lifetime: f.Lifetime, done: func() {
			stop()
			reading.Release()
		}}, -1, nil
	}
	if in.ContentLength == 0 || in.Body == nil {
		return http.NoBody, 0, nil
	}
	data, err := io.ReadAll(in.Body)
	if err != nil {
		return nil, 0, fmt.Errorf("%w: the body of the call did not arrive: %w", txn.ErrInvalid, err)
	}
	return io.NopCloser(bytes.NewReader(data)), int64(len(data)), nil
}

// clientStream is the request stream of a forwarded Pipe. It ends when the call has to end:
// the commands sent so far are answered, and the client sends the rest to another node.
type clientStream struct {
	io.ReadCloser
	lifetime context.Context
	done     func()
}

// Read implements [io.Reader].
func (u *clientStream) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	if err != nil && u.lifetime.Err() != nil {
		err = io.EOF
	}
	return n, err
}

// Close implements [io.Closer].
func (u *clientStream) Close() error {
	u.done()
	return u.ReadCloser.Close()
}

// hopByHop are the headers that concern one connection only.
var hopByHop = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Expect",
}

// forwardHeaders returns the headers to forward.
func forwardHeaders(h http.Header) http.Header {
	h = h.Clone()
	for _, named := range h["Connection"] {
		for name := range strings.SplitSeq(named, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hopByHop {
		h.Del(name)
	}
	return h
}

// failNoResponse answers a call for which no response arrived, before anything was sent to
// the client.
func (f *proxyCall) failNoResponse(err error) {
	f.forwarder.outcomes.WithLabelValues("lost").Inc()
	if f.Request.Context().Err() != nil {
		return // the client is gone too
	}
	f.Responder.Fail(f.noResponseError(err))
}

// noResponseError is the error of a call for which no response arrived: in doubt if the call
// decides and may have arrived. If it surely has not arrived, the error says when to retry:
// clients retry calls that are not idempotent only then.
func (f *proxyCall) noResponseError(err error) error {
	if cause := context.Cause(f.ctx); cause != nil {
		err = cause
	}
	sent := f.sent.Load()
	switch {
	case sent && wire.Decides(f.Method.Op):
		return fmt.Errorf("%w: the answer of the node that leads was lost: %w", txn.ErrInDoubt, opaqueError{err})
	case errors.Is(err, txn.ErrDenied):
		return err
	case !errors.Is(err, txn.ErrUnavailable):
		err = fmt.Errorf("%w: the node that leads does not answer: %w", txn.ErrUnavailable, opaqueError{err})
	}
	if sent {
		return err
	}
	return &wire.RetryAfterError{After: RetryNoLeader, Err: err}
}

// opaqueError keeps the text of an error and hides its type from errors.Is and errors.As.
type opaqueError struct{ error }
