package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/server/forward"
	"github.com/txmgr/txmgr/txn"
)

// undecodedResponse is the response of the connect library to a request that it could not
// decode. No interceptor sees such a request, so the response has none of the details that
// all others have: it is buffered and rewritten. A nil one buffers nothing.
type undecodedResponse struct{ body bytes.Buffer }

// shouldBuffer reports whether the response of x is one to buffer.
func (u *undecodedResponse) shouldBuffer(x *callState) bool {
	return u != nil && !x.observed && x.status >= http.StatusBadRequest
}

// Write implements [http.ResponseWriter].
func (x *callState) Write(p []byte) (int, error) {
	if x.undecoded.shouldBuffer(x) {
		return x.undecoded.body.Write(p) // a short text of the library
	}
	return x.ResponseWriter.Write(p)
}

// rewriteUndecoded answers a request that was refused before it was decoded, in the form of
// every other failure; if its protocol is not known, with the bare status.
func (g *apiHandler) rewriteUndecoded(x *callState, r *http.Request, started time.Time) {
	p, raw, status := x.method, x.undecoded, x.status
	x.undecoded = nil
	err := fmt.Errorf("not decoded: HTTP status %d", status)
	decoded, known := raw.parse()
	if known {
		err = opError(p, fmt.Errorf("%w: %s", forward.CodeOfStatus(status).Sentinel(), decoded.Message()))
	}
	g.s.observer.observe(observation{method: p, code: forward.CodeOfStatus(status), took: time.Since(started), err: err})
	if !known {
		x.WriteHeader(status)
		_, _ = x.Write(raw.body.Bytes()) // fails only if the client is gone
		return
	}
	x.Header().Del("Content-Length")
	g.writeError(x, r, wire.ToConnectAs(wire.FromError(err, p.op, txn.ID{}), decoded.Code()))
}

// parse decodes the library's response.
func (u *undecodedResponse) parse() (*connect.Error, bool) {
	var response struct {
		Code    connect.Code `json:"code"`
		Message string       `json:"message"`
	}
	if err := json.Unmarshal(u.body.Bytes(), &response); err != nil || response.Code == 0 {
		return nil, false
	}
	return connect.NewError(response.Code, errors.New(response.Message)), true
}
