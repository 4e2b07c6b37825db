package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/server/auth"
	"github.com/txmgr/txmgr/server/forward"
	"github.com/txmgr/txmgr/txn"
)

// apiHandler admits calls of the API, forwards them to the leader, or refuses them before
// their body is read. It is the only place that counts running calls.
type apiHandler struct {
	s           *Server
	callWatcher *callWatcher
	errorWriter *connect.ErrorWriter
	methods     map[string]*rpcMethod // by path; never changed after the start
	commands    []*rpcMethod          // those that come through a Pipe
	fallback    http.Handler
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
	stale := p.flags&allowsStale != 0 && r.Header.Get(wire.HeaderStale) == "true"
	toLeader := !here && p.flags&nodeLocal == 0 && !stale

	b, err := g.s.auth.Authorize(r, p.name, p.role, toLeader && api != "")
	if err != nil {
		g.writeAuthError(w, r, p, b, err)
		return
	}
	running, limit := g.s.running.limit(p, &g.s.cfg)
	if n := running.Add(1); n > int64(limit) {
		running.Add(-1)
		g.refuse(w, r, p, fmt.Errorf("%w: %d calls of this kind are running, which is the limit", txn.ErrUnavailable, limit))
		return
	}
	defer running.Add(-1)
	if err := g.checkServable(r, p, toLeader, api); err != nil {
		g.refuse(w, r, p, err)
		return
	}

	x := &callState{ResponseWriter: w, rc: http.NewResponseController(w), method: p, principal: b, lifetime: g.s.draining.ctx}
	if p.class == bidi && r.ProtoMajor > 1 {
		_ = x.rc.SetReadDeadline(time.Time{}) // batches may be days apart
	}
	if p.class == longLived || p.class == bidi || toLeader {
		var release func()
		x.lifetime, release = g.callWatcher.watch(callDependencies(p, stale, leaderInfo{api, here}, b))
		defer release()
	}
	if toLeader {
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
func (g *apiHandler) checkServable(r *http.Request, p *rpcMethod, toLeader bool, api string) error {
	if err := context.Cause(g.s.draining.ctx); err != nil && p.class != unary {
		return err
	}
	if r.ContentLength > int64(g.s.cfg.MaxBody) && p.class != bidi {
		return fmt.Errorf("%w: the body has %d bytes; at most %d", txn.ErrInvalid, r.ContentLength, g.s.cfg.MaxBody)
	}
	if !toLeader {
		return nil
	}
	// Prevents a loop between two nodes that take each other for the leader.
	if by := r.Header.Get(wire.HeaderForwarded); by != "" {
		return &wire.RetryAfterError{After: forward.RetryNoLeader, Err: fmt.Errorf("%w: %s passed the call on to this node, which does not lead", txn.ErrUnavailable, by[:min(len(by), 64)])}
	}
	if api == "" {
		if err := g.s.c.Ready(); errors.Is(err, txn.ErrUnavailable) { // more precise
			return &wire.RetryAfterError{After: forward.RetryNoLeader, Err: err}
		}
		return &wire.RetryAfterError{After: forward.RetryNoLeader, Err: fmt.Errorf("%w: this node does not lead, and knows no other that does", txn.ErrUnavailable)}
	}
	return nil
}

// callDependencies returns the leader and the secret on which a call depends.
func callDependencies(p *rpcMethod, stale bool, l leaderInfo, b auth.Principal) (*leaderInfo, string) {
	secret := b.Secret
	if b.Unverified {
		secret = "" // the leader checks it
	}
	if p.flags&nodeLocal != 0 || stale {
		return nil, secret
	}
	return &l, secret
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
	defer func() { g.s.lists.Release(x.listReserved) }()
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
