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

// ErrHeldBack is what a handler gets that wants to flush its answer, or to take the
// connection over, while it works in a transaction.
var ErrHeldBack = errors.New("the answer is held back until the votes of the transaction are in: a handler cannot stream in a transaction")

var (
	// errAnswered: the handler has said by its status that it failed.
	errAnswered = errors.New("the handler answered")
	errTooLong  = errors.New("the handler's answer is too long to be held back")
)

// held is an answer that is held back. It is a [http.ResponseWriter] without Flush,
// and deliberately without Unwrap, which would lead round it.
type held struct {
	rw     http.ResponseWriter
	header http.Header
	limit  int
	status int // zero until it is written
	body   bytes.Buffer
	over   bool // more was written than is held
}

func newHeld(rw http.ResponseWriter, limit int) *held {
	return &held{rw: rw, header: rw.Header().Clone(), limit: limit}
}

func (h *held) Header() http.Header { return h.header }

// WriteHeader keeps the first final status. Those before it (1xx) are not sent.
func (h *held) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("invalid WriteHeader code %v", status)) // as net/http has it
	}
	if h.status == 0 && status >= 200 {
		h.status = status
	}
}

func (h *held) Write(b []byte) (int, error) {
	h.WriteHeader(http.StatusOK)
	if h.body.Len()+len(b) > h.limit {
		h.over = true
		return 0, fmt.Errorf("%w: more than %d bytes", errTooLong, h.limit)
	}
	return h.body.Write(b)
}

// FlushError is for [http.ResponseController].
func (h *held) FlushError() error { return ErrHeldBack }

// Hijack implements [http.Hijacker].
func (h *held) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, ErrHeldBack }

// failure is why the transaction must not be committed.
func (h *held) failure() error {
	switch {
	case h.over:
		return fmt.Errorf("%w: more than %d bytes", errTooLong, h.limit)
	case h.status >= 400:
		return fmt.Errorf("%w %d %s", errAnswered, h.status, http.StatusText(h.status))
	}
	return nil
}

// release sends the answer.
func (h *held) release() {
	out := h.rw.Header()
	outcome := out.Get(HeaderOutcome)
	clear(out)
	maps.Copy(out, h.header)
	out.Del(HeaderOutcome) // only the middleware says so
	if outcome != "" {
		out.Set(HeaderOutcome, outcome)
	}
	if h.status != 0 {
		h.rw.WriteHeader(h.status)
	}
	_, _ = h.rw.Write(h.body.Bytes()) // who does not hear it, is gone
}
