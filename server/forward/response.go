package forward

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
	if f.Denied != nil && res.Header.Get(wire.HeaderCode) == string(txn.CodeDenied) {
		f.Denied()
	}
	h := f.Writer.Header()
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
	f.forwarder.outcomes.WithLabelValues(outcome).Inc()
	f.Responder.Observe(codeOf(res), time.Since(f.started), err)
}

// copyUnary copies a response that is one message without a frame.
func (f *proxyCall) copyUnary(res *http.Response) error {
	data, err := io.ReadAll(io.LimitReader(res.Body, maxBuffered))
	if err != nil {
		f.failTruncated(err)
		return err
	}
	f.Writer.WriteHeader(res.StatusCode)
	_, _ = f.Writer.Write(data) // fails only if the client is gone
	if len(data) == maxBuffered {
		if _, err := io.Copy(f.Writer, res.Body); err != nil {
			f.abort(err)
		}
	}
	f.copyTrailers(res)
	return nil
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

// copyTrailers copies the trailers of a gRPC response.
func (f *proxyCall) copyTrailers(res *http.Response) {
	for k, vs := range res.Trailer {
		f.Writer.Header()[http.TrailerPrefix+k] = vs
	}
}

// messageWriteTimeout is how long a client may take to receive one message of a stream.
const messageWriteTimeout = 30 * time.Second

var (
	errNoTrailer = errors.New("the answer has no end")
	errTruncated = errors.New("the answer ends within a message")
)

// copyStream copies a response message by message, so that a truncated one still gets an end
// in the client's protocol.
func (f *proxyCall) copyStream(res *http.Response, k framing) error {
	f.Writer.WriteHeader(res.StatusCode)
	_ = f.rc.Flush() // the headers tell the client of a stream that it is connected
	if f.Method.Stream {
		_ = f.rc.SetWriteDeadline(time.Time{}) // messages may be days apart
	}
	ended, err := f.copyFrames(res.Body, k)
	if err == nil && k == grpcFrames {
		ended = res.Trailer.Get("Grpc-Status") != ""
		f.copyTrailers(res)
	}
	switch {
	case err == nil && ended, f.Request.Context().Err() != nil:
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
	if _, err := io.CopyN(f.Writer, body, n); err != nil {
		return fmt.Errorf("%w: %w", errTruncated, err)
	}
	_ = f.rc.Flush()
	return nil
}

// write sends one message to the client. A client that does not receive it ends the call.
func (f *proxyCall) write(frame []byte) {
	if f.Method.Stream {
		_ = f.rc.SetWriteDeadline(time.Now().Add(messageWriteTimeout))
		defer func() { _ = f.rc.SetWriteDeadline(time.Time{}) }()
	}
	if _, err := f.Writer.Write(frame); err != nil {
		f.cancel(err)
		return
	}
	_ = f.rc.Flush()
}

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
