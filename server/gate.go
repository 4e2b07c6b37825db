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

// gate lets calls of the API in, passes them on to the node that leads, or refuses
// them before their body is read. It is the only place that counts what runs.
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
	bearer    bearer
	// ending ends when the call has to: the server drains, another node leads, the
	// token is good no more. Its cause says which.
	ending context.Context
	seen   bool // by the observer: it has been logged and counted
	status int
	listed int64 // of [Server.listed]
	raw    *undecoded
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// caller is who makes a call: whom the token says, or else whom the caller says
// himself.
func caller(ctx context.Context, said string) string {
	if x := exchangeOf(ctx); x != nil && x.bearer.name != "" {
		return x.bearer.name
	}
	return said
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := g.procedures[r.URL.Path]
	if p == nil {
		g.rest.ServeHTTP(w, r)
		return
	}
	api, here := g.s.c.Leader()
	if !here && api != "" {
		w.Header().Set(wire.HeaderLeader, api)
	}
	stale := p.staleable && r.Header.Get(wire.HeaderStale) == "true"
	elsewhere := !here && !p.local && !stale

	b, err := g.s.auth.admit(r, p.name, p.role, elsewhere && api != "")
	if err != nil {
		g.deny(w, r, p, b, err)
		return
	}
	running, limit := g.s.limit(p)
	if n := running.Add(1); n > int64(limit) {
		running.Add(-1)
		g.refuse(w, r, p, fmt.Errorf("%w: %d calls of this kind are running, which is the limit", txn.ErrUnavailable, limit))
		return
	}
	defer running.Add(-1)
	if err := g.check(r, p, elsewhere, api); err != nil {
		g.refuse(w, r, p, err)
		return
	}

	x := &exchange{ResponseWriter: w, rc: http.NewResponseController(w), procedure: p, bearer: b, ending: g.s.draining}
	if p.class == piping && r.ProtoMajor > 1 {
		_ = x.rc.SetReadDeadline(time.Time{}) // batches may be days apart
	}
	if p.class == long || p.class == piping || elsewhere {
		var release func()
		x.ending, release = g.s.vigil.keep(standing(p, stale, lead{api, here}, b))
		defer release()
	}
	if elsewhere {
		g.forward(x, r, api)
		return
	}
	ctx := context.WithValue(r.Context(), exchangeKey{}, x)
	if stale {
		ctx = txn.AllowStale(ctx)
	}
	g.serve(x, r.WithContext(ctx))
}

// check refuses what cannot be served now, or never.
func (g *gate) check(r *http.Request, p *procedure, elsewhere bool, api string) error {
	if err := context.Cause(g.s.draining); err != nil && p.class != unary {
		return err
	}
	if r.ContentLength > int64(g.s.cfg.MaxBody) && p.class != piping {
		return fmt.Errorf("%w: the body has %d bytes; at most %d", txn.ErrInvalid, r.ContentLength, g.s.cfg.MaxBody)
	}
	if !elsewhere {
		return nil
	}
	// Two nodes that take each other for the leader must not play ball.
	if by := r.Header.Get(wire.HeaderForwarded); by != "" {
		return &wire.RetryAfterError{After: retryLeader, Err: fmt.Errorf("%w: %s passed the call on to this node, which does not lead", txn.ErrUnavailable, by[:min(len(by), 64)])}
	}
	if api == "" {
		if err := g.s.c.Ready(); errors.Is(err, txn.ErrUnavailable) { // it may know more
			return &wire.RetryAfterError{After: retryLeader, Err: err}
		}
		return &wire.RetryAfterError{After: retryLeader, Err: fmt.Errorf("%w: this node does not lead, and knows no other that does", txn.ErrUnavailable)}
	}
	return nil
}

// standing is what a call stands on.
func standing(p *procedure, stale bool, l lead, b bearer) (*lead, string) {
	secret := b.secret
	if b.unverified {
		secret = "" // the other node looks after it
	}
	if p.local || stale {
		return nil, secret
	}
	return &l, secret
}

// limit is what counts the running calls like p, and the most of them. Calls that only
// look have room of their own, and as much: whoever may do no more does not keep
// others from deciding.
func (s *Server) limit(p *procedure) (running *atomic.Int64, most int) {
	l := &s.deciding
	if p.role <= txn.RoleReader {
		l = &s.looking
	}
	switch p.class {
	case unary:
		return &l.requests, s.cfg.MaxRequests
	case asking:
		return &l.asks, s.cfg.MaxAsks
	default:
		return &l.streams, s.cfg.MaxStreams
	}
}

// longest is the most time that a call of a class may take.
func (s *Server) longest(c class) time.Duration {
	if c == asking {
		return s.cfg.AskTimeout
	}
	return s.cfg.MaxCallTimeout
}

func (g *gate) serve(x *exchange, r *http.Request) {
	started, p := time.Now(), x.procedure
	defer func() { g.s.keep(x, 0) }()
	g.limitBody(x, r, started)
	if r.Method == http.MethodGet {
		x.Header().Set("Cache-Control", "no-store")
	}
	x.raw = new(undecoded)
	p.serve.ServeHTTP(x, r)
	if !x.seen && x.status >= http.StatusBadRequest {
		// Refused by connect itself: not decoded, so no observer saw it.
		g.undecoded(x, r, started)
	}
}

// punctual gives every request's body its time, also when nobody reads it: net/http
// reads what was left of it before the answer leaves, and would wait for it for ever.
func (s *Server) punctual(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// net/http takes the deadline off at the end of the body; without a body it
		// would end the call. Only a test's recorder cannot have deadlines.
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.cfg.ReadTimeout))
		}
		next.ServeHTTP(w, r)
	})
}

// limitBody limits the size of a request's body, and the time of its answer.
// r has to be a copy: net/http looks at the request's own body when the call is over.
func (g *gate) limitBody(x *exchange, r *http.Request, now time.Time) {
	if x.procedure.class == piping {
		return
	}
	// 5 bytes are the frame that gRPC puts around the message.
	if r.ContentLength != 0 {
		r.Body = http.MaxBytesReader(x.ResponseWriter, r.Body, int64(g.s.cfg.MaxBody)+5)
	}
	_ = x.rc.SetWriteDeadline(now.Add(g.s.longest(x.procedure.class) + g.s.cfg.ReadTimeout))
}

// refuse answers a call of which nothing was done. That it may come again, and when,
// says so.
func (g *gate) refuse(w http.ResponseWriter, r *http.Request, p *procedure, err error) {
	if again := (*wire.RetryAfterError)(nil); errors.Is(err, txn.ErrUnavailable) && !errors.As(err, &again) {
		err = &wire.RetryAfterError{After: retryAfter, Err: err}
	}
	g.fail(w, r, p, err)
}

// fail answers in whatever protocol the caller speaks.
func (g *gate) fail(w http.ResponseWriter, r *http.Request, p *procedure, err error) {
	err = opError(p, err)
	g.s.observe(observation{procedure: p, code: txn.CodeOf(err), err: err})
	g.answer(w, r, wire.ToConnect(wire.FromError(err, p.op, txn.ID{})))
}

// deny answers somebody who was not admitted.
func (g *gate) deny(w http.ResponseWriter, r *http.Request, p *procedure, b bearer, err error) {
	p.timer.observe(txn.CodeOf(err), 0)
	g.s.auth.denied(r, p.name, b, err)
	challenge(w, r, err)
	if k := framingOf(r.Header.Get("Content-Type")); k == connectFrames || k == grpcFrames {
		// These say it at their end only; a node that passes the call on wants to know.
		w.Header().Set(wire.HeaderCode, string(txn.CodeOf(err)))
	}
	f := wire.FromError(opError(p, err), p.op, txn.ID{})
	if d := (*denial)(nil); errors.As(err, &d) {
		g.answer(w, r, wire.ToConnectAs(f, d.code))
		return
	}
	g.answer(w, r, wire.ToConnect(f))
}

// opError names the call in an error, and keeps when to come again.
func opError(p *procedure, err error) error {
	if again := (*wire.RetryAfterError)(nil); errors.As(err, &again) {
		return &wire.RetryAfterError{After: again.After, Err: &txn.Error{Op: p.op, Err: again.Err}}
	}
	return &txn.Error{Op: p.op, Err: err}
}

func (g *gate) answer(w http.ResponseWriter, r *http.Request, e *connect.Error) {
	_ = g.errors.Write(w, r, e) // the caller is gone
}

// Unwrap lets [http.ResponseController] reach the real writer.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// Flush implements [http.Flusher], which connect needs for streams.
func (x *exchange) Flush() {
	if !x.raw.holds(x) {
		_ = x.rc.Flush() // the next write says that the caller is gone
	}
}

// WriteHeader notes the status, and gives a failure that has no code yet one.
func (x *exchange) WriteHeader(status int) {
	x.status = status
	if x.raw.holds(x) {
		return
	}
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
