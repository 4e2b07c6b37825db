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

// forwarding is one call on its way to the node that leads.
type forwarding struct {
	g       *gate
	x       *exchange
	in      *http.Request // as the caller sent it
	started time.Time
	ctx     context.Context // ends with the call; its cause says why
	cancel  context.CancelCauseFunc
	sent    atomic.Bool // there is a connection: it may have arrived
}

// forward passes a call on as it is, and its answer back.
func (g *gate) forward(x *exchange, r *http.Request, api string) {
	if x.bearer.unverified {
		if n := g.s.unverified.Add(1); n > maxUnverified {
			g.s.unverified.Add(-1)
			g.refuse(x, r, x.procedure, fmt.Errorf("%w: %d calls are being passed on whose tokens this node does not know", txn.ErrUnavailable, maxUnverified))
			return
		}
		defer g.s.unverified.Add(-1)
	}
	f := &forwarding{g: g, x: x, in: r, started: time.Now()}
	f.ctx, f.cancel = context.WithCancelCause(r.Context())
	defer f.cancel(nil)
	defer f.endInTime()()

	out, err := f.request(api)
	if err != nil {
		g.s.metrics.forwarded.WithLabelValues("refused").Inc()
		g.refuse(x, r, x.procedure, err)
		return
	}
	defer out.Body.Close()
	res, err := g.s.peers.of(x.procedure.class).RoundTrip(out)
	if err != nil {
		f.lost(err)
		return
	}
	defer res.Body.Close()
	f.relay(res)
}

// endInTime cancels the call when its caller's time is over, or when what it
// stands on is gone. What release gives has to be called.
func (f *forwarding) endInTime() (release func()) {
	var timers []*time.Timer
	if f.x.procedure.class != piping && !f.x.procedure.stream {
		patience := f.g.patience(f.x.procedure.class, f.in.Header)
		timers = append(timers, time.AfterFunc(patience, func() { f.cancel(context.DeadlineExceeded) }))
	}
	late := make(chan *time.Timer, 1)
	stop := context.AfterFunc(f.x.ending, func() {
		cause := context.Cause(f.x.ending)
		switch {
		case cause != errDraining:
			late <- time.AfterFunc(forwardGrace, func() { f.cancel(cause) })
		case f.x.procedure.class == long || f.x.procedure.class == asking:
			f.cancel(cause)
		}
	})
	return func() {
		stop()
		select {
		case t := <-late:
			t.Stop()
		default: // a timer that comes later finds the call over
		}
		for _, t := range timers {
			t.Stop()
		}
	}
}

// patience is how long to wait for an answer: as long as the caller does.
func (g *gate) patience(c class, h http.Header) time.Duration {
	limit := g.s.longest(c)
	if c == unary {
		limit = g.s.cfg.CallTimeout
	}
	if d, ok := timeoutOf(h); ok {
		limit = min(d, g.s.longest(c))
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
func (f *forwarding) request(api string) (*http.Request, error) {
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
		Header:        passed(in.Header),
		Body:          body,
		ContentLength: size,
	}).WithContext(ctx)
	if strings.Contains(in.Header.Get("Te"), "trailers") {
		out.Header.Set("Te", "trailers")
	}
	out.Header.Set(wire.HeaderForwarded, f.g.s.node())
	return out, nil
}

// body is what is sent to the other node. The body of a call is read before, so
// that a slow caller holds nothing there; a Pipe's is sent as it comes.
func (f *forwarding) body(in *http.Request) (io.ReadCloser, int64, error) {
	if f.x.procedure.class == piping {
		reading := &interruptible{rc: f.x.rc}
		stop := context.AfterFunc(f.x.ending, reading.interrupt)
		return &upstream{ReadCloser: in.Body, ending: f.x.ending, done: func() {
			stop()
			reading.done()
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

// upstream is the caller's half of a Pipe. It ends when the call has to: what was
// sent is answered then, and the caller goes elsewhere with the rest.
type upstream struct {
	io.ReadCloser
	ending context.Context
	done   func()
}

// Read implements [io.Reader].
func (u *upstream) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	if err != nil && u.ending.Err() != nil {
		err = io.EOF
	}
	return n, err
}

// Close implements [io.Closer].
func (u *upstream) Close() error {
	u.done()
	return u.ReadCloser.Close()
}

// hopByHop are headers about one connection.
var hopByHop = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Expect",
}

// passed gives the headers that are passed on.
func passed(h http.Header) http.Header {
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

// lost answers a call whose answer did not arrive, before anything was answered.
func (f *forwarding) lost(err error) {
	f.g.s.metrics.forwarded.WithLabelValues("lost").Inc()
	if f.in.Context().Err() != nil {
		return // so is the caller
	}
	f.g.fail(f.x, f.in, f.x.procedure, f.why(err))
}

// why says what became of a call whose answer did not arrive: nobody knows, when it
// decides and may have arrived. One that surely has not may come again, and is told
// when: the caller of what must not be done twice counts on that.
func (f *forwarding) why(err error) error {
	if cause := context.Cause(f.ctx); cause != nil {
		err = cause
	}
	sent := f.sent.Load()
	switch {
	case sent && wire.Decides(f.x.procedure.op):
		return fmt.Errorf("%w: the answer of the node that leads was lost: %w", txn.ErrInDoubt, unsaid{err})
	case errors.Is(err, txn.ErrDenied):
		return err
	case !errors.Is(err, txn.ErrUnavailable):
		err = fmt.Errorf("%w: the node that leads does not answer: %w", txn.ErrUnavailable, unsaid{err})
	}
	if sent {
		return err
	}
	return &wire.RetryAfterError{After: retryLeader, Err: err}
}

// unsaid keeps the text of an error, and not what it is.
type unsaid struct{ error }
