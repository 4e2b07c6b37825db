package server

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
	"sync/atomic"
	"time"

	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/txn"
)

// forwardGrace is how long the node that led may take to answer what it was given,
// when another leads now, and forwardMargin what is added to the time that the
// caller has: the answer of the node that knows more is worth waiting for.
const (
	forwardGrace  = time.Second
	forwardMargin = 500 * time.Millisecond
)

// maxUnverified is how many calls at once may be passed on whose tokens this node
// does not know.
const maxUnverified = 32

// proxyCall is one call on its way to the node that leads.
type proxyCall struct {
	g       *apiHandler
	x       *callState
	in      *http.Request // as the caller sent it
	started time.Time
	ctx     context.Context // ends with the call; its cause says why
	cancel  context.CancelCauseFunc
	sent    atomic.Bool // there is a connection: it may have arrived
}

// forward passes a call on as it is, and its answer back.
func (g *apiHandler) forward(x *callState, r *http.Request, api string) {
	if x.principal.unverified {
		if n := g.s.unverified.Add(1); n > maxUnverified {
			g.s.unverified.Add(-1)
			g.refuse(x, r, x.method, fmt.Errorf("%w: %d calls are being passed on whose tokens this node does not know", txn.ErrUnavailable, maxUnverified))
			return
		}
		defer g.s.unverified.Add(-1)
	}
	f := &proxyCall{g: g, x: x, in: r, started: time.Now()}
	f.ctx, f.cancel = context.WithCancelCause(r.Context())
	defer f.cancel(nil)
	defer f.boundLifetime()()

	out, err := f.request(api)
	if err != nil {
		g.s.metrics.forwarded.WithLabelValues("refused").Inc()
		g.refuse(x, r, x.method, err)
		return
	}
	defer out.Body.Close()
	res, err := g.s.transports.forClass(x.method.class).RoundTrip(out)
	if err != nil {
		f.failNoResponse(err)
		return
	}
	defer res.Body.Close()
	f.copyResponse(res)
}

// boundLifetime cancels the call when its caller's time is over, or when what it
// stands on is gone. What release gives has to be called.
func (f *proxyCall) boundLifetime() (release func()) {
	var timers []*time.Timer
	if f.x.method.class != bidi && !f.x.method.stream {
		timeout := f.g.forwardTimeout(f.x.method.class, f.in.Header)
		timers = append(timers, time.AfterFunc(timeout, func() { f.cancel(context.DeadlineExceeded) }))
	}
	grace := make(chan *time.Timer, 1)
	stop := context.AfterFunc(f.x.lifetime, func() {
		cause := context.Cause(f.x.lifetime)
		switch {
		case cause != errDraining:
			grace <- time.AfterFunc(forwardGrace, func() { f.cancel(cause) })
		case f.x.method.class == longLived || f.x.method.class == fanout:
			f.cancel(cause)
		}
	})
	return func() {
		stop()
		select {
		case t := <-grace:
			t.Stop()
		default: // a timer that comes later finds the call over
		}
		for _, t := range timers {
			t.Stop()
		}
	}
}

// forwardTimeout is how long to wait for an answer: as long as the caller does.
func (g *apiHandler) forwardTimeout(c callClass, h http.Header) time.Duration {
	limit := g.s.timeoutLimit(c)
	if c == unary {
		limit = g.s.cfg.CallTimeout
	}
	if d, ok := timeoutOf(h); ok {
		limit = min(d, g.s.timeoutLimit(c))
	}
	return limit + forwardMargin
}

// timeoutOf reads the time that a caller gives, in connect's form or gRPC's.
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

// request makes the request to the node that leads.
func (f *proxyCall) request(api string) (*http.Request, error) {
	to, err := url.Parse(api)
	if err != nil || to.Host == "" {
		return nil, fmt.Errorf("%w: the node that leads is at %q, which is no URL", txn.ErrUnavailable, api)
	}
	in := f.in.WithContext(f.ctx) // a copy, for the limits of its body
	f.g.limitBody(f.x, in, f.started)
	body, size, err := f.body(in)
	if err != nil {
		return nil, err
	}
	ctx := httptrace.WithClientTrace(f.ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { f.sent.Store(true) }})
	out := (&http.Request{
		Method: in.Method,
		URL:    &url.URL{Scheme: to.Scheme, Host: to.Host, Path: strings.TrimSuffix(to.Path, "/") + in.URL.Path, RawQuery: in.URL.RawQuery},
		// What the caller called it: the other node compares it with the origin of a page.
		Host:          in.Host,
		Header:        forwardHeaders(in.Header),
		Body:          body,
		ContentLength: size,
	}).WithContext(ctx)
	if strings.Contains(in.Header.Get("Te"), "trailers") {
		out.Header.Set("Te", "trailers")
	}
	out.Header.Set(wire.HeaderForwarded, f.g.s.nodeName())
	return out, nil
}

// body is what is sent to the other node. The body of a call is read before, so
// that a slow caller holds nothing there; a Pipe's is sent as it comes.
func (f *proxyCall) body(in *http.Request) (io.ReadCloser, int64, error) {
	if f.x.method.class == bidi {
		reading := &readAborter{rc: f.x.rc}
		stop := context.AfterFunc(f.x.lifetime, reading.abort)
		return &clientStream{ReadCloser: in.Body, lifetime: f.x.lifetime, done: func() {
			stop()
			reading.release()
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

// clientStream is the caller's half of a Pipe. It ends when the call has to: what was
// sent is answered then, and the caller goes elsewhere with the rest.
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

// hopByHop are headers about one connection.
var hopByHop = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Expect",
}

// forwardHeaders gives the headers that are passed on.
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

// failNoResponse answers a call whose answer did not arrive, before anything was answered.
func (f *proxyCall) failNoResponse(err error) {
	f.g.s.metrics.forwarded.WithLabelValues("lost").Inc()
	if f.in.Context().Err() != nil {
		return // so is the caller
	}
	f.g.fail(f.x, f.in, f.x.method, f.noResponseError(err))
}

// noResponseError says what became of a call whose answer did not arrive: nobody knows, when it
// decides and may have arrived. One that surely has not may come again, and is told
// when: the caller of what must not be done twice counts on that.
func (f *proxyCall) noResponseError(err error) error {
	if cause := context.Cause(f.ctx); cause != nil {
		err = cause
	}
	sent := f.sent.Load()
	switch {
	case sent && wire.Decides(f.x.method.op):
		return fmt.Errorf("%w: the answer of the node that leads was lost: %w", txn.ErrInDoubt, opaqueError{err})
	case errors.Is(err, txn.ErrDenied):
		return err
	case !errors.Is(err, txn.ErrUnavailable):
		err = fmt.Errorf("%w: the node that leads does not answer: %w", txn.ErrUnavailable, opaqueError{err})
	}
	if sent {
		return err
	}
	return &wire.RetryAfterError{After: retryNoLeader, Err: err}
}

// opaqueError keeps the text of an error, and not what it is.
type opaqueError struct{ error }
