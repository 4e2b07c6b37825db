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

// apiHandler lets calls of the API in, passes them on to the node that leads, or refuses
// them before their body is read. It is the only place that counts what runs.
type apiHandler struct {
	s           *Server
	errorWriter *connect.ErrorWriter
	methods     map[string]*rpcMethod // never changed after the start
	fallback    http.Handler
}

// callState is one HTTP request of the API: what its handler may need of it, and
// what it has been answered. Used by the goroutine of the request only.
type callState struct {
	http.ResponseWriter

	rc        *http.ResponseController
	method    *rpcMethod
	principal principal
	// lifetime ends when the call has to: the server drains, another node leads, the
	// token is good no more. Its cause says which.
	lifetime     context.Context
	observed     bool // by the observer: it has been logged and counted
	status       int
	listReserved int64 // of [Server.listUsed]
	undecoded    *undecodedResponse
}

type callStateKey struct{}

func callFrom(ctx context.Context) *callState {
	x, _ := ctx.Value(callStateKey{}).(*callState)
	return x
}

// actor is who makes a call: whom the token says, or else whom the caller says
// himself.
func actor(ctx context.Context, claimed string) string {
	if x := callFrom(ctx); x != nil && x.principal.name != "" {
		return x.principal.name
	}
	return claimed
}

func (g *apiHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := g.methods[r.URL.Path]
	if p == nil {
		g.fallback.ServeHTTP(w, r)
		return
	}
	api, here := g.s.c.Leader()
	if !here && api != "" {
		w.Header().Set(wire.HeaderLeader, api)
	}
	stale := p.allowsStale && r.Header.Get(wire.HeaderStale) == "true"
	forward := !here && !p.nodeLocal && !stale

	b, err := g.s.auth.authorize(r, p.name, p.role, forward && api != "")
	if err != nil {
		g.writeAuthError(w, r, p, b, err)
		return
	}
	running, limit := g.s.limit(p)
	if n := running.Add(1); n > int64(limit) {
		running.Add(-1)
		g.refuse(w, r, p, fmt.Errorf("%w: %d calls of this kind are running, which is the limit", txn.ErrUnavailable, limit))
		return
	}
	defer running.Add(-1)
	if err := g.checkServable(r, p, forward, api); err != nil {
		g.refuse(w, r, p, err)
		return
	}

	x := &callState{ResponseWriter: w, rc: http.NewResponseController(w), method: p, principal: b, lifetime: g.s.draining}
	if p.class == bidi && r.ProtoMajor > 1 {
		_ = x.rc.SetReadDeadline(time.Time{}) // batches may be days apart
	}
	if p.class == longLived || p.class == bidi || forward {
		var release func()
		x.lifetime, release = g.s.callWatcher.watch(callDependencies(p, stale, leaderInfo{api, here}, b))
		defer release()
	}
	if forward {
		g.forward(x, r, api)
		return
	}
	ctx := context.WithValue(r.Context(), callStateKey{}, x)
	if stale {
		ctx = txn.AllowStale(ctx)
	}
	g.serve(x, r.WithContext(ctx))
}

// checkServable refuses what cannot be served now, or never.
func (g *apiHandler) checkServable(r *http.Request, p *rpcMethod, forward bool, api string) error {
	if err := context.Cause(g.s.draining); err != nil && p.class != unary {
		return err
	}
	if r.ContentLength > int64(g.s.cfg.MaxBody) && p.class != bidi {
		return fmt.Errorf("%w: the body has %d bytes; at most %d", txn.ErrInvalid, r.ContentLength, g.s.cfg.MaxBody)
	}
	if !forward {
		return nil
	}
	// Two nodes that take each other for the leader must not play ball.
	if by := r.Header.Get(wire.HeaderForwarded); by != "" {
		return &wire.RetryAfterError{After: retryNoLeader, Err: fmt.Errorf("%w: %s passed the call on to this node, which does not lead", txn.ErrUnavailable, by[:min(len(by), 64)])}
	}
	if api == "" {
		if err := g.s.c.Ready(); errors.Is(err, txn.ErrUnavailable) { // it may know more
			return &wire.RetryAfterError{After: retryNoLeader, Err: err}
		}
		return &wire.RetryAfterError{After: retryNoLeader, Err: fmt.Errorf("%w: this node does not lead, and knows no other that does", txn.ErrUnavailable)}
	}
	return nil
}

// callDependencies is what a call stands on.
func callDependencies(p *rpcMethod, stale bool, l leaderInfo, b principal) (*leaderInfo, string) {
	secret := b.secret
	if b.unverified {
		secret = "" // the other node looks after it
	}
	if p.nodeLocal || stale {
		return nil, secret
	}
	return &l, secret
}

// limit is what counts the running calls like p, and the most of them. Calls that only
// look have room of their own, and as much: whoever may do no more does not keep
// others from deciding.
func (s *Server) limit(p *rpcMethod) (running *atomic.Int64, most int) {
	l := &s.writes
	if p.role <= txn.RoleReader {
		l = &s.reads
	}
	switch p.class {
	case unary:
		return &l.requests, s.cfg.MaxRequests
	case fanout:
		return &l.fanouts, s.cfg.MaxFanoutCalls
	default:
		return &l.streams, s.cfg.MaxStreams
	}
}

// timeoutLimit is the most time that a call of a class may take.
func (s *Server) timeoutLimit(c callClass) time.Duration {
	if c == fanout {
		return s.cfg.FanoutTimeout
	}
	return s.cfg.MaxCallTimeout
}

func (g *apiHandler) serve(x *callState, r *http.Request) {
	started, p := time.Now(), x.method
	defer func() { g.s.shrinkList(x, 0) }()
	g.limitBody(x, r, started)
	if r.Method == http.MethodGet {
		x.Header().Set("Cache-Control", "no-store")
	}
	x.undecoded = new(undecodedResponse)
	p.serve.ServeHTTP(x, r)
	if !x.observed && x.status >= http.StatusBadRequest {
		// Refused by connect itself: not decoded, so no observer saw it.
		g.rewriteUndecoded(x, r, started)
	}
}

// withReadDeadline gives every request's body its time, also when nobody reads it: net/http
// reads what was left of it before the answer leaves, and would wait for it for ever.
func (s *Server) withReadDeadline(next http.Handler) http.Handler {
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
func (g *apiHandler) limitBody(x *callState, r *http.Request, now time.Time) {
	if x.method.class == bidi {
		return
	}
	// 5 bytes are the frame that gRPC puts around the message.
	if r.ContentLength != 0 {
		r.Body = http.MaxBytesReader(x.ResponseWriter, r.Body, int64(g.s.cfg.MaxBody)+5)
	}
	_ = x.rc.SetWriteDeadline(now.Add(g.s.timeoutLimit(x.method.class) + g.s.cfg.ReadTimeout))
}

// refuse answers a call of which nothing was done. That it may come again, and when,
// says so.
func (g *apiHandler) refuse(w http.ResponseWriter, r *http.Request, p *rpcMethod, err error) {
	if again := (*wire.RetryAfterError)(nil); errors.Is(err, txn.ErrUnavailable) && !errors.As(err, &again) {
		err = &wire.RetryAfterError{After: retryAfter, Err: err}
	}
	g.fail(w, r, p, err)
}

// fail answers in whatever protocol the caller speaks.
func (g *apiHandler) fail(w http.ResponseWriter, r *http.Request, p *rpcMethod, err error) {
	err = opError(p, err)
	g.s.observe(observation{method: p, code: txn.CodeOf(err), err: err})
	g.writeError(w, r, wire.ToConnect(wire.FromError(err, p.op, txn.ID{})))
}

// writeAuthError answers somebody who was not admitted.
func (g *apiHandler) writeAuthError(w http.ResponseWriter, r *http.Request, p *rpcMethod, b principal, err error) {
	p.timer.observe(txn.CodeOf(err), 0)
	g.s.auth.recordDenial(r, p.name, b, err)
	challenge(w, r, err)
	if k := framingOf(r.Header.Get("Content-Type")); k == connectFrames || k == grpcFrames {
		// These say it at their end only; a node that passes the call on wants to know.
		w.Header().Set(wire.HeaderCode, string(txn.CodeOf(err)))
	}
	f := wire.FromError(opError(p, err), p.op, txn.ID{})
	if d := (*authError)(nil); errors.As(err, &d) {
		g.writeError(w, r, wire.ToConnectAs(f, d.code))
		return
	}
	g.writeError(w, r, wire.ToConnect(f))
}

// opError names the call in an error, and keeps when to come again.
func opError(p *rpcMethod, err error) error {
	if again := (*wire.RetryAfterError)(nil); errors.As(err, &again) {
		return &wire.RetryAfterError{After: again.After, Err: &txn.Error{Op: p.op, Err: again.Err}}
	}
	return &txn.Error{Op: p.op, Err: err}
}

func (g *apiHandler) writeError(w http.ResponseWriter, r *http.Request, e *connect.Error) {
	_ = g.errorWriter.Write(w, r, e) // the caller is gone
}

// Unwrap lets [http.ResponseController] reach the real writer.
func (x *callState) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// Flush implements [http.Flusher], which connect needs for streams.
func (x *callState) Flush() {
	if !x.undecoded.shouldBuffer(x) {
		_ = x.rc.Flush() // the next write says that the caller is gone
	}
}

// WriteHeader notes the status, and gives a failure that has no code yet one.
func (x *callState) WriteHeader(status int) {
	x.status = status
	if x.undecoded.shouldBuffer(x) {
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
