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
	"github.com/txmgr/txmgr/txn/admin"
)

// apiHandler admits calls of the API, forwards them to the leader, or refuses them before
// their body is read. It is the only place that counts running calls.
type apiHandler struct {
	s           *Server
	errorWriter *connect.ErrorWriter
	methods     map[string]*rpcMethod // never changed after the start
	fallback    http.Handler
}

// callState is the state of one HTTP request of the API: what its handler may need, and what
// has been answered. It is used by the goroutine of the request only.
type callState struct {
	http.ResponseWriter

	rc        *http.ResponseController
	method    *rpcMethod
	principal principal
	// lifetime ends when the call has to end: the server drains, another node leads, or the
	// token is no longer valid. Its cause says which.
	lifetime     context.Context
	observed     bool // by the interceptor: the call has been logged and counted
	status       int
	listReserved int64 // of [Server.listUsed]
	undecoded    *undecodedResponse
}

type callStateKey struct{}

func callFrom(ctx context.Context) *callState {
	x, _ := ctx.Value(callStateKey{}).(*callState)
	return x
}

// actor is who makes a call: the name of the token, or else what the client claims.
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

// checkServable refuses a call that cannot be served now, or at all.
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
	// Prevents a loop between two nodes that take each other for the leader.
	if by := r.Header.Get(wire.HeaderForwarded); by != "" {
		return &wire.RetryAfterError{After: retryNoLeader, Err: fmt.Errorf("%w: %s passed the call on to this node, which does not lead", txn.ErrUnavailable, by[:min(len(by), 64)])}
	}
	if api == "" {
		if err := g.s.c.Ready(); errors.Is(err, txn.ErrUnavailable) { // more precise
			return &wire.RetryAfterError{After: retryNoLeader, Err: err}
		}
		return &wire.RetryAfterError{After: retryNoLeader, Err: fmt.Errorf("%w: this node does not lead, and knows no other that does", txn.ErrUnavailable)}
	}
	return nil
}

// callDependencies returns the leader and the secret on which a call depends.
func callDependencies(p *rpcMethod, stale bool, l leaderInfo, b principal) (*leaderInfo, string) {
	secret := b.secret
	if b.unverified {
		secret = "" // the leader checks it
	}
	if p.nodeLocal || stale {
		return nil, secret
	}
	return &l, secret
}

// limit returns the counter of the running calls like p and its limit. Calls that only read
// have separate counters with the same limits, so that a reader cannot keep others from
// deciding.
func (s *Server) limit(p *rpcMethod) (running *atomic.Int64, most int) {
	l := &s.writes
	if p.role <= admin.RoleReader {
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

// timeoutLimit is the longest time that a call of a class may take.
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
		// connect itself refused the request: it was not decoded, so no interceptor saw it.
		g.rewriteUndecoded(x, r, started)
	}
}

// withReadDeadline sets a deadline for every request's body, even if no handler reads it:
// net/http reads the rest of the body before the response is sent, and would wait for it
// without limit.
func (s *Server) withReadDeadline(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// net/http removes the deadline at the end of the body; without a body the deadline
		// would end the call. Only a test's recorder does not support deadlines.
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.cfg.ReadTimeout))
		}
		next.ServeHTTP(w, r)
	})
}

// limitBody limits the size of a request's body, and the time of its response. r has to be a
// copy: net/http looks at the request's own body when the call has ended.
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

// refuse answers a call of which nothing was done. An unavailable call gets a time after
// which to retry.
func (g *apiHandler) refuse(w http.ResponseWriter, r *http.Request, p *rpcMethod, err error) {
	if again := (*wire.RetryAfterError)(nil); errors.Is(err, txn.ErrUnavailable) && !errors.As(err, &again) {
		err = &wire.RetryAfterError{After: retryAfter, Err: err}
	}
	g.fail(w, r, p, err)
}

// fail answers in the protocol of the client.
func (g *apiHandler) fail(w http.ResponseWriter, r *http.Request, p *rpcMethod, err error) {
	err = opError(p, err)
	g.s.observe(observation{method: p, code: txn.CodeOf(err), err: err})
	g.writeError(w, r, wire.ToConnect(wire.FromError(err, p.op, txn.ID{})))
}

// writeAuthError answers a call that was rejected by [auth.authorize].
func (g *apiHandler) writeAuthError(w http.ResponseWriter, r *http.Request, p *rpcMethod, b principal, err error) {
	p.timer.observe(txn.CodeOf(err), 0)
	g.s.auth.recordDenial(r, p.name, b, err)
	challenge(w, r, err)
	if k := framingOf(r.Header.Get("Content-Type")); k == connectFrames || k == grpcFrames {
		// These protocols carry the code only at the end; a node that forwards the call needs
		// it in the header.
		w.Header().Set(wire.HeaderCode, string(txn.CodeOf(err)))
	}
	f := wire.FromError(opError(p, err), p.op, txn.ID{})
	if d := (*authError)(nil); errors.As(err, &d) {
		g.writeError(w, r, wire.ToConnectAs(f, d.code))
		return
	}
	g.writeError(w, r, wire.ToConnect(f))
}

// opError adds the name of the call to an error, and keeps the time after which to retry.
func opError(p *rpcMethod, err error) error {
	if again := (*wire.RetryAfterError)(nil); errors.As(err, &again) {
		return &wire.RetryAfterError{After: again.After, Err: &txn.Error{Op: p.op, Err: again.Err}}
	}
	return &txn.Error{Op: p.op, Err: err}
}

func (g *apiHandler) writeError(w http.ResponseWriter, r *http.Request, e *connect.Error) {
	_ = g.errorWriter.Write(w, r, e) // the client is gone
}

// Unwrap lets [http.ResponseController] reach the underlying writer.
func (x *callState) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// Flush implements [http.Flusher], which connect needs for streams.
func (x *callState) Flush() {
	if !x.undecoded.shouldBuffer(x) {
		_ = x.rc.Flush() // the next write fails if the client is gone
	}
}

// WriteHeader records the status, and adds a code to a failure that has none yet.
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
