package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/txn"
)

// gate lets calls of the API in, or refuses them before their body is read. It
// is the only place that counts what runs.
type gate struct {
	s          *Server
	errors     *connect.ErrorWriter
	procedures map[string]*procedure // never changed after the start
	rest       http.Handler
}

// exchange is one HTTP request of the API: what its handler may need of it, and
// what it has been answered. Used by the goroutine of the request only.
type exchange struct {
	http.ResponseWriter

	rc        *http.ResponseController
	procedure *procedure
	seen      bool // by the observer: it has been logged and counted
	status    int
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := g.procedures[r.URL.Path]
	if p == nil {
		g.rest.ServeHTTP(w, r)
		return
	}
	running, limit := g.s.limit(p.class)
	if n := running.Add(1); n > int64(limit) {
		running.Add(-1)
		g.refuse(w, r, p, fmt.Errorf("%w: %d calls of this kind are running, which is the limit", txn.ErrUnavailable, limit))
		return
	}
	defer running.Add(-1)
	if err := context.Cause(g.s.draining); err != nil && p.class != unary {
		g.refuse(w, r, p, err)
		return
	}
	if r.ContentLength > int64(g.s.cfg.MaxBody) && p.class != piping {
		g.refuse(w, r, p, fmt.Errorf("%w: the body has %d bytes; at most %d", txn.ErrInvalid, r.ContentLength, g.s.cfg.MaxBody))
		return
	}
	g.serve(w, r, p)
}

// limit is what counts the running calls of a class, and the most of them.
func (s *Server) limit(c class) (running *atomic.Int64, most int) {
	switch c {
	case unary:
		return &s.requests, s.cfg.MaxRequests
	case asking:
		return &s.asks, s.cfg.MaxAsks
	default:
		return &s.streams, s.cfg.MaxStreams
	}
}

// longest is the most time that a call of a class may take.
func (s *Server) longest(c class) time.Duration {
	if c == asking {
		return s.cfg.AskTimeout
	}
	return s.cfg.MaxCallTimeout
}

func (g *gate) serve(w http.ResponseWriter, r *http.Request, p *procedure) {
	started := time.Now()
	x := &exchange{ResponseWriter: w, rc: http.NewResponseController(w), procedure: p}
	// A copy: net/http looks at the request's own body when the call is over.
	r = r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x))
	if p.class != piping {
		// 5 bytes are the frame that gRPC puts around the message. net/http takes
		// the deadline off at the end of the body; without a body it would end
		// the call. Only a test's recorder cannot have deadlines.
		if r.ContentLength != 0 {
			r.Body = http.MaxBytesReader(w, r.Body, int64(g.s.cfg.MaxBody)+5)
			_ = x.rc.SetReadDeadline(started.Add(g.s.cfg.ReadTimeout))
		}
		_ = x.rc.SetWriteDeadline(started.Add(g.s.longest(p.class) + g.s.cfg.ReadTimeout))
	}
	if r.Method == http.MethodGet {
		w.Header().Set("Cache-Control", "no-store")
	}
	p.serve.ServeHTTP(x, r)
	if !x.seen && x.status >= http.StatusBadRequest {
		// Refused by connect itself: not decoded, so no observer saw it.
		g.s.observe(observation{
			procedure: p, code: codeOfStatus(x.status), took: time.Since(started),
			err: fmt.Errorf("not decoded: HTTP status %d", x.status),
		})
	}
}

// refuse answers in whatever protocol the caller speaks. Nothing was done.
func (g *gate) refuse(w http.ResponseWriter, r *http.Request, p *procedure, err error) {
	if errors.Is(err, txn.ErrUnavailable) {
		err = &wire.RetryAfterError{After: retryAfter, Err: err}
	}
	err = &txn.Error{Op: p.op, Err: err}
	g.s.observe(observation{procedure: p, code: txn.CodeOf(err), err: err})
	_ = g.errors.Write(w, r, wire.ToConnect(wire.FromError(err, p.op, txn.ID{}))) // the caller is gone
}

// Unwrap lets [http.ResponseController] reach the real writer.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// Flush implements [http.Flusher], which connect needs for streams.
func (x *exchange) Flush() { _ = x.rc.Flush() } // the next write says that the caller is gone

// WriteHeader notes the status, and gives a failure that has no code yet one.
func (x *exchange) WriteHeader(status int) {
	x.status = status
	if status >= http.StatusBadRequest && x.Header().Get(wire.HeaderCode) == "" {
		x.Header().Set(wire.HeaderCode, string(codeOfStatus(status)))
	}
	x.ResponseWriter.WriteHeader(status)
}

func codeOfStatus(status int) txn.Code {
	switch {
	case status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout:
		return txn.CodeUnavailable
	case status >= http.StatusInternalServerError && status != http.StatusNotImplemented && status != http.StatusHTTPVersionNotSupported:
		return txn.CodeError
	default:
		return txn.CodeUsage
	}
}
