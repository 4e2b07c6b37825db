package server

import (
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/server/forward"
	"github.com/txmgr/txmgr/txn"
)

// forward sends a call to the leader unchanged, and its response back.
func (g *apiHandler) forward(x *callState, r *http.Request, api string) {
	m := x.method
	c := forward.Call{
		Method: forward.Method{
			Name: m.name, Op: m.op, Stream: m.stream, Bidi: m.class == bidi,
			EndsAtDrain: m.class == longLived || m.class == fanout,
		},
		Writer: x, Request: r.WithContext(r.Context()), Lifetime: x.lifetime,
		Timeout: g.s.timeoutLimit(m.class), MaxTimeout: g.s.timeoutLimit(m.class), Responder: &forwardedCall{g, x, r},
	}
	if m.class == unary {
		c.Timeout = g.s.cfg.CallTimeout
	}
	if x.principal.Unverified {
		release, err := g.s.auth.AcquireUnverified()
		if err != nil {
			g.refuse(x, r, m, err)
			return
		}
		defer release()
		c.Denied = func() { g.s.auth.RecordDenialByLeader(r, m.name, x.principal) }
	}
	g.limitBody(x, c.Request, time.Now())
	if err := g.s.forwarder.Forward(c, api); err != nil {
		g.refuse(x, r, m, err)
	}
}

// forwardedCall answers and observes a call that is being forwarded.
type forwardedCall struct {
	g *apiHandler
	x *callState
	r *http.Request
}

// Fail implements [forward.Responder].
func (f *forwardedCall) Fail(err error) { f.g.fail(f.x, f.r, f.x.method, err) }

// Failure implements [forward.Responder].
func (f *forwardedCall) Failure(err error) *connect.Error {
	return wire.ToConnect(wire.FromError(opError(f.x.method, err), f.x.method.op, txn.ID{}))
}

// Write implements [forward.Responder].
func (f *forwardedCall) Write(w http.ResponseWriter, e *connect.Error) { f.g.writeError(w, f.r, e) }

// Observe implements [forward.Responder].
func (f *forwardedCall) Observe(code txn.Code, took time.Duration, err error) {
	f.g.s.observer.observe(observation{method: f.x.method, code: code, took: took, err: err, callerGone: callerGone(f.r.Context())})
}
