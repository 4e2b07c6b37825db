package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/txn"
)

// maxBuffered is the most bytes of a response that are buffered until it is complete, so that
// a truncated one can still be replaced by a Failure.
const maxBuffered = 1 << 20

// copyResponse copies the leader's response to the client.
func (f *proxyCall) copyResponse(res *http.Response) {
	if f.x.principal.Unverified && res.Header.Get(wire.HeaderCode) == string(txn.CodeDenied) {
		f.g.s.auth.RecordDenialByLeader(f.in, f.x.method.name, f.x.principal)
	}
	h := f.x.Header()
	for k, vs := range forwardHeaders(res.Header) {
		h[k] = vs
	}
	framing := framingOf(res.Header.Get("Content-Type"))
	var err error
	if framing == unframed || res.Header.Get("Grpc-Status") != "" {
		err = f.copyUnary(res)
	} else {
		err = f.copyStream(res, framing)
	}
	outcome := "answered"
	if err != nil {
		outcome = "lost"
	}
	f.g.s.metrics.forwarded.WithLabelValues(outcome).Inc()
	f.g.s.observe(observation{method: f.x.method, code: codeOf(res), took: time.Since(f.started), err: err, callerGone: callerGone(f.in.Context())})
}

// codeOf returns the code of a response.
func codeOf(res *http.Response) txn.Code {
	for _, h := range []http.Header{res.Header, res.Trailer} {
		if c := h.Get(wire.HeaderCode); c != "" {
			return txn.Code(c)
		}
	}
	if res.StatusCode >= http.StatusBadRequest {
		return codeOfStatus(res.StatusCode)
	}
	return txn.CodeOK
}

// copyUnary copies a response that is one message without a frame.
func (f *proxyCall) copyUnary(res *http.Response) error {
	data, err := io.ReadAll(io.LimitReader(res.Body, maxBuffered))
	if err != nil {
		f.failTruncated(err)
		return err
	}
	f.x.WriteHeader(res.StatusCode)
	_, _ = f.x.Write(data) // fails only if the client is gone
	if len(data) == maxBuffered {
		if _, err := io.Copy(f.x, res.Body); err != nil {
			f.abort(err)
		}
	}
	f.copyTrailers(res)
	return nil
}

// failTruncated answers in place of a response that was truncated before any of it was sent
// to the client.
func (f *proxyCall) failTruncated(err error) {
	leader := f.x.Header().Get(wire.HeaderLeader)
	clear(f.x.Header())
	if leader != "" {
		f.x.Header().Set(wire.HeaderLeader, leader)
	}
	if f.in.Context().Err() == nil {
		f.g.writeError(f.x, f.in, wire.ToConnect(wire.FromError(opError(f.x.method, f.noResponseError(err)), f.x.method.op, txn.ID{})))
	}
}

// abort closes the connection, so that the client sees that the response is incomplete.
func (f *proxyCall) abort(err error) {
	f.g.s.log.Debug("answer cut off", "method", f.x.method.name, "error", err)
	panic(http.ErrAbortHandler)
}

// copyTrailers copies the trailers of a gRPC response.
func (f *proxyCall) copyTrailers(res *http.Response) {
	for k, vs := range res.Trailer {
		f.x.Header()[http.TrailerPrefix+k] = vs
	}
}

// framing is how the messages of a body are delimited.
type framing int

const (
	unframed framing = iota
	connectFrames
	grpcFrames
	grpcWebFrames
)

func framingOf(contentType string) framing {
	switch {
	case strings.HasPrefix(contentType, "application/connect+"):
		return connectFrames
	case strings.HasPrefix(contentType, "application/grpc-web"):
		return grpcWebFrames
	case strings.HasPrefix(contentType, "application/grpc"):
		return grpcFrames
	default:
		return unframed
	}
}

// endsStream reports whether a frame with these flags is the last one.
func (k framing) endsStream(flags byte) bool {
	return k == connectFrames && flags&0x02 != 0 || k == grpcWebFrames && flags&0x80 != 0
}

var (
	errNoTrailer = errors.New("the answer has no end")
	errTruncated = errors.New("the answer ends within a message")
)

// copyStream copies a response message by message, so that a truncated one still gets an end
// in the client's protocol.
func (f *proxyCall) copyStream(res *http.Response, k framing) error {
	f.x.WriteHeader(res.StatusCode)
	f.x.Flush() // the headers tell the client of a stream that it is connected
	if f.x.method.stream {
		_ = f.x.rc.SetWriteDeadline(time.Time{}) // messages may be days apart
	}
	ended, err := f.copyFrames(res.Body, k)
	if err == nil && k == grpcFrames {
		ended = res.Trailer.Get("Grpc-Status") != ""
		f.copyTrailers(res)
	}
	switch {
	case err == nil && ended, f.in.Context().Err() != nil:
		return nil
	case errors.Is(err, errTruncated):
		f.abort(err)
	case err == nil:
		err = errNoTrailer
	}
	f.failStream(k, err)
	return err
}

// copyFrames copies messages until there are no more. ended says that the last message marks
// the end of the stream itself.
func (f *proxyCall) copyFrames(body io.Reader, k framing) (ended bool, err error) {
	buffer := make([]byte, 5, 4096)
	for {
		buffer = buffer[:5]
		if _, err := io.ReadFull(body, buffer); err != nil {
			if err == io.EOF {
				err = nil
			}
			return ended, err
		}
		ended = k.endsStream(buffer[0])
		n := int64(binary.BigEndian.Uint32(buffer[1:5]))
		if n > maxBuffered {
			if err := f.copyLarge(buffer, body, n); err != nil {
				return false, err
			}
			continue
		}
		if need := 5 + int(n); cap(buffer) < need {
			grown := make([]byte, need, need+need/2)
			copy(grown, buffer)
			buffer = grown
		} else {
			buffer = buffer[:need]
		}
		if _, err := io.ReadFull(body, buffer[5:]); err != nil {
			return false, fmt.Errorf("%w: %w", errNoTrailer, err)
		}
		f.write(buffer)
	}
}

// copyLarge copies a message that is too large to be buffered.
func (f *proxyCall) copyLarge(head []byte, body io.Reader, n int64) error {
	f.write(head)
	if _, err := io.CopyN(f.x, body, n); err != nil {
		return fmt.Errorf("%w: %w", errTruncated, err)
	}
	f.x.Flush()
	return nil
}

// write sends one message to the client. A client that does not receive it ends the call.
func (f *proxyCall) write(frame []byte) {
	if f.x.method.stream {
		_ = f.x.rc.SetWriteDeadline(time.Now().Add(eventWriteTimeout))
		defer func() { _ = f.x.rc.SetWriteDeadline(time.Time{}) }()
	}
	if _, err := f.x.Write(frame); err != nil {
		f.cancel(err)
		return
	}
	f.x.Flush()
}

// failStream ends a response that was truncated between two messages. The commands of a Pipe
// that were not answered may have been executed, so a Pipe gets no Failure, which would state
// that they were not.
func (f *proxyCall) failStream(k framing, err error) {
	e := connect.NewError(connect.CodeUnavailable, fmt.Errorf("the node that leads does not answer: %w", err))
	if f.x.method.class != bidi {
		e = wire.ToConnect(wire.FromError(opError(f.x.method, f.noResponseError(err)), f.x.method.op, txn.ID{}))
	}
	t := &trailerWriter{x: f.x, header: make(http.Header)}
	f.g.writeError(t, f.in, e)
	switch k {
	case grpcFrames:
		for name, vs := range t.header {
			if strings.HasPrefix(name, "Grpc-") || strings.HasPrefix(name, "Txmgr-") {
				f.x.Header()[http.TrailerPrefix+name] = vs
			}
		}
	case grpcWebFrames:
		t.writeGRPCWebTrailers()
	}
}

// trailerWriter writes the end of a response whose headers are sent.
type trailerWriter struct {
	x      *callState
	header http.Header
}

// Header implements [http.ResponseWriter].
func (t *trailerWriter) Header() http.Header { return t.header }

// WriteHeader implements [http.ResponseWriter].
func (t *trailerWriter) WriteHeader(int) {}

// Write implements [http.ResponseWriter].
func (t *trailerWriter) Write(p []byte) (int, error) { return t.x.Write(p) }

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
	_, _ = t.x.Write(append(frame, b.String()...)) // fails only if the client is gone
}
