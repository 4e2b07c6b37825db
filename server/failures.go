package server

import (
	"errors"
	"net/http"

	"connectrpc.com/connect"

	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/server/auth"
	"github.com/txmgr/txmgr/server/forward"
	"github.com/txmgr/txmgr/server/limits"
	"github.com/txmgr/txmgr/txn"
)

// refuse answers a call of which nothing was done. An unavailable call gets a time after
// which to retry.
func (g *apiHandler) refuse(w http.ResponseWriter, r *http.Request, p *rpcMethod, err error) {
	if again := (*wire.RetryAfterError)(nil); errors.Is(err, txn.ErrUnavailable) && !errors.As(err, &again) {
		err = &wire.RetryAfterError{After: limits.RetryAfter, Err: err}
	}
	g.fail(w, r, p, err)
}

// fail answers in the protocol of the client.
func (g *apiHandler) fail(w http.ResponseWriter, r *http.Request, p *rpcMethod, err error) {
	err = opError(p, err)
	g.s.observer.observe(observation{method: p, code: txn.CodeOf(err), err: err})
	g.writeError(w, r, wire.ToConnect(wire.FromError(err, p.op, txn.ID{})))
}

// writeAuthError answers a call that was rejected by [auth.Authenticator.Authorize].
func (g *apiHandler) writeAuthError(w http.ResponseWriter, r *http.Request, p *rpcMethod, b auth.Principal, err error) {
	p.timer.observe(txn.CodeOf(err), 0)
	g.s.auth.RecordDenial(r, p.name, b, err)
	auth.Challenge(w, r, err)
	if forward.CodeAtEnd(r.Header.Get("Content-Type")) {
		// These protocols carry the code only at the end; a node that forwards the call needs
		// it in the header.
		w.Header().Set(wire.HeaderCode, string(txn.CodeOf(err)))
	}
	f := wire.FromError(opError(p, err), p.op, txn.ID{})
	if code, ok := auth.ConnectCode(err); ok {
		g.writeError(w, r, wire.ToConnectAs(f, code))
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
