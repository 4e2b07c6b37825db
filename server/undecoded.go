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
	"github.com/txmgr/txmgr/txn"
)

// undecoded is the answer of the connect library to a request that it could not
// decode. No interceptor sees such a request, so the answer has none of the details
// that all others have: it is held back and written anew. A nil one holds nothing.
type undecoded struct{ body bytes.Buffer }

// holds reports whether the answer of x is one to hold back.
func (u *undecoded) holds(x *exchange) bool {
	return u != nil && !x.seen && x.status >= http.StatusBadRequest
}

// Write implements [http.ResponseWriter].
func (x *exchange) Write(p []byte) (int, error) {
	if x.raw.holds(x) {
		return x.raw.body.Write(p) // a few words of the library's
	}
	return x.ResponseWriter.Write(p)
}

// undecoded answers a request that was refused before it was decoded, in the form of
// every other failure; one whose protocol is not known gets the bare status.
func (g *gate) undecoded(x *exchange, r *http.Request, started time.Time) {
	p, raw, status := x.procedure, x.raw, x.status
	x.raw = nil
	err := fmt.Errorf("not decoded: HTTP status %d", status)
	said, known := raw.read()
	if known {
		err = opError(p, fmt.Errorf("%w: %s", codeOfStatus(status).Sentinel(), said.Message()))
	}
	g.s.observe(observation{procedure: p, code: codeOfStatus(status), took: time.Since(started), err: err})
	if !known {
		x.WriteHeader(status)
		_, _ = x.Write(raw.body.Bytes()) // the caller is gone
		return
	}
	x.Header().Del("Content-Length")
	g.answer(x, r, wire.ToConnectAs(wire.FromError(err, p.op, txn.ID{}), said.Code()))
}

// read takes the library's answer apart.
func (u *undecoded) read() (*connect.Error, bool) {
	var said struct {
		Code    connect.Code `json:"code"`
		Message string       `json:"message"`
	}
	if err := json.Unmarshal(u.body.Bytes(), &said); err != nil || said.Code == 0 {
		return nil, false
	}
	return connect.NewError(said.Code, errors.New(said.Message)), true
}
