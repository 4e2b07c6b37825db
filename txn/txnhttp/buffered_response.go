package txnhttp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
)

// ErrResponseBuffered is what a handler gets when it flushes its answer, or takes the
// connection over, while it works in a transaction.
var ErrResponseBuffered = errors.New("the answer is held back until the votes of the transaction are in: a handler cannot stream in a transaction")

var (
	// errHandlerStatus: the status of the handler's answer says that it failed.
	errHandlerStatus    = errors.New("the handler answered")
	errResponseTooLarge = errors.New("the handler's answer is too long to be held back")
)

// bufferedResponse is an answer that is held back. It is a [http.ResponseWriter] without Flush,
// and deliberately without Unwrap, which would bypass it.
type bufferedResponse struct {
	rw         http.ResponseWriter
	header     http.Header
	limit      int
	status     int // zero until it is written
	body       bytes.Buffer
	overflowed bool // more was written than is held
}

func newBufferedResponse(rw http.ResponseWriter, limit int) *bufferedResponse {
	return &bufferedResponse{rw: rw, header: rw.Header().Clone(), limit: limit}
}

func (h *bufferedResponse) Header() http.Header { return h.header }

// WriteHeader keeps the first final status. Those before it (1xx) are not sent.
func (h *bufferedResponse) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("invalid WriteHeader code %v", status)) // as net/http has it
	}
	if h.status == 0 && status >= 200 {
		h.status = status
	}
}

func (h *bufferedResponse) Write(b []byte) (int, error) {
	h.WriteHeader(http.StatusOK)
	if h.body.Len()+len(b) > h.limit {
		h.overflowed = true
		return 0, fmt.Errorf("%w: more than %d bytes", errResponseTooLarge, h.limit)
	}
	return h.body.Write(b)
}

// FlushError is for [http.ResponseController].
func (h *bufferedResponse) FlushError() error { return ErrResponseBuffered }

// Hijack implements [http.Hijacker].
func (h *bufferedResponse) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, ErrResponseBuffered
}

// err is why the transaction must not be committed.
func (h *bufferedResponse) err() error {
	switch {
	case h.overflowed:
		return fmt.Errorf("%w: more than %d bytes", errResponseTooLarge, h.limit)
	case h.status >= 400:
		return fmt.Errorf("%w %d %s", errHandlerStatus, h.status, http.StatusText(h.status))
	}
	return nil
}

// send sends the answer.
func (h *bufferedResponse) send() {
	out := h.rw.Header()
	outcome := out.Get(HeaderOutcome)
	clear(out)
	maps.Copy(out, h.header)
	out.Del(HeaderOutcome) // only the middleware sets it
	if outcome != "" {
		out.Set(HeaderOutcome, outcome)
	}
	if h.status != 0 {
		h.rw.WriteHeader(h.status)
	}
	_, _ = h.rw.Write(h.body.Bytes()) // a failure means that the client has disconnected
}
