package forward

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"connectrpc.com/connect"

	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/txn"
)

// failNoResponse answers a call for which no response arrived, before anything was sent to
// the client.
func (f *proxyCall) failNoResponse(err error) {
	f.forwarder.outcomes.WithLabelValues("lost").Inc()
	if f.Request.Context().Err() != nil {
		return // the client is gone too
	}
	f.Responder.Fail(f.noResponseError(err))
}

// noResponseError is the error of a call for which no response arrived: in doubt if the call
// decides and may have arrived. If it surely has not arrived, the error says when to retry:
// clients retry calls that are not idempotent only then.
func (f *proxyCall) noResponseError(err error) error {
	if cause := context.Cause(f.ctx); cause != nil {
		err = cause
	}
	sent := f.sent.Load()
	switch {
	case sent && wire.Decides(f.Method.Op):
		return fmt.Errorf("%w: the answer of the node that leads was lost: %w", txn.ErrInDoubt, opaqueError{err})
	case errors.Is(err, txn.ErrDenied):
		return err
	case !errors.Is(err, txn.ErrUnavailable):
		err = fmt.Errorf("%w: the node that leads does not answer: %w", txn.ErrUnavailable, opaqueError{err})
	}
	if sent {
		return err
	}
	return &wire.RetryAfterError{After: RetryNoLeader, Err: err}
}

// opaqueError keeps the text of an error and hides its type from errors.Is and errors.As.
type opaqueError struct{ error }

// failStream ends a response that was truncated between two messages. The commands of a Pipe
// that were not answered may have been executed, so a Pipe gets no Failure, which would state
// that they were not.
func (f *proxyCall) failStream(k framing, err error) {
	e := connect.NewError(connect.CodeUnavailable, fmt.Errorf("the node that leads does not answer: %w", err))
	if !f.Method.Bidi {
		e = f.Responder.Failure(f.noResponseError(err))
	}
	t := &trailerWriter{w: f.Writer, header: make(http.Header)}
	f.Responder.Write(t, e)
	switch k {
	case grpcFrames:
		for name, vs := range t.header {
			if strings.HasPrefix(name, "Grpc-") || strings.HasPrefix(name, "Txmgr-") {
				f.Writer.Header()[http.TrailerPrefix+name] = vs
			}
		}
	case grpcWebFrames:
		t.writeGRPCWebTrailers()
	}
}

// failTruncated answers in place of a response that was truncated before any of it was sent
// to the client.
func (f *proxyCall) failTruncated(err error) {
	leader := f.Writer.Header().Get(wire.HeaderLeader)
	clear(f.Writer.Header())
	if leader != "" {
		f.Writer.Header().Set(wire.HeaderLeader, leader)
	}
	if f.Request.Context().Err() == nil {
		f.Responder.Write(f.Writer, f.Responder.Failure(f.noResponseError(err)))
	}
}

// abort closes the connection, so that the client sees that the response is incomplete.
func (f *proxyCall) abort(err error) {
	f.forwarder.cfg.Log.Debug("answer cut off", "method", f.Method.Name, "error", err)
	panic(http.ErrAbortHandler)
}

// trailerWriter writes the end of a response whose headers are sent.
type trailerWriter struct {
	w      http.ResponseWriter
	header http.Header
}

// Header implements [http.ResponseWriter].
func (t *trailerWriter) Header() http.Header { return t.header }

// WriteHeader implements [http.ResponseWriter].
func (t *trailerWriter) WriteHeader(int) {}

// Write implements [http.ResponseWriter].
func (t *trailerWriter) Write(p []byte) (int, error) { return t.w.Write(p) }

// writeGRPCWebTrailers writes the headers as a gRPC-Web trailer frame.
func (t *trailerWriter) writeGRPCWebTrailers() {
	var b strings.Builder
	for name, vs := range t.header {
		for _, v := range vs {
			if name != "Content-Type" {
				fmt.Fprintf(&b, "%s: %s\r\n", strings.ToLower(name), v)
			}
		}
	}
	frame := binary.BigEndian.AppendUint32([]byte{0x80}, uint32(b.Len()))
	_, _ = t.w.Write(append(frame, b.String()...)) // fails only if the client is gone
}
