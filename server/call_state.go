package server

import (
	"context"
	"net/http"

	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/server/auth"
	"github.com/txmgr/txmgr/server/forward"
)

// callState is the state of one HTTP request of the API: what its handler may need, and what
// has been answered. It is used by the goroutine of the request only.
type callState struct {
	http.ResponseWriter

	rc        *http.ResponseController
	method    *rpcMethod
	principal auth.Principal
	// lifetime ends when the call has to end: the server drains, another node leads, or the
	// token is no longer valid. Its cause says which.
	lifetime     context.Context
	observed     bool // by the interceptor: the call has been logged and counted
	status       int
	listReserved int64 // of [limits.Lists]
	undecoded    *undecodedResponse
}

type callStateKey struct{}

func callFrom(ctx context.Context) *callState {
	x, _ := ctx.Value(callStateKey{}).(*callState)
	return x
}

// actor is who makes a call: the name of the token, or else what the client claims.
func actor(ctx context.Context, claimed string) string {
	if x := callFrom(ctx); x != nil && x.principal.Name != "" {
		return x.principal.Name
	}
	return claimed
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
		x.Header().Set(wire.HeaderCode, string(forward.CodeOfStatus(status)))
	}
	x.ResponseWriter.WriteHeader(status)
}
