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

// maxHeld is the most bytes of an answer that are held back until they are
// complete: what is cut off then can still be made a failure that says so.
const maxHeld = 1 << 20

var errElsewhere = deny("unknown", connect.CodeUnauthenticated, "this node does not know the token, and the node that leads does not admit it")

// relay passes an answer back.
func (f *forwarding) relay(res *http.Response) {
	if f.x.bearer.unverified && res.Header.Get(wire.HeaderCode) == string(txn.CodeDenied) {
		// The answer is the other node's, but only here is it known who asked.
		_ = f.g.s.auth.floods.failed(f.in.RemoteAddr, time.Now())
		f.g.s.auth.denied(f.in, f.x.procedure.name, f.x.bearer, errElsewhere)
	}
	h := f.x.Header()
	for k, vs := range passed(res.Header) {
		h[k] = vs
	}
	framing := framingOf(res.Header.Get("Content-Type"))
	var err error
	if framing == unframed || res.Header.Get("Grpc-Status") != "" {
		err = f.whole(res)
	} else {
		err = f.frames(res, framing)
	}
	outcome := "answered"
	if err != nil {
		outcome = "lost"
	}
	f.g.s.metrics.forwarded.WithLabelValues(outcome).Inc()
	f.g.s.observe(observation{procedure: f.x.procedure, code: codeOf(res), took: time.Since(f.started), err: err, left: gone(f.in.Context())})
}

// codeOf finds the code of an answer.
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

// whole passes an answer back that is one message without a frame.
func (f *forwarding) whole(res *http.Response) error {
	data, err := io.ReadAll(io.LimitReader(res.Body, maxHeld))
	if err != nil {
		f.refuseLost(err)
		return err
	}
	f.x.WriteHeader(res.StatusCode)
	_, _ = f.x.Write(data) // the caller is gone
	if len(data) == maxHeld {
		if _, err := io.Copy(f.x, res.Body); err != nil {
			f.abort(err)
		}
	}
	f.trailers(res)
	return nil
}

// refuseLost answers instead of an answer that was cut off, before any of it was
// passed on.
func (f *forwarding) refuseLost(err error) {
	leader := f.x.Header().Get(wire.HeaderLeader)
	clear(f.x.Header())
	if leader != "" {
		f.x.Header().Set(wire.HeaderLeader, leader)
	}
	if f.in.Context().Err() == nil {
		f.g.answer(f.x, f.in, wire.ToConnect(wire.FromError(opError(f.x.procedure, f.why(err)), f.x.procedure.op, txn.ID{})))
	}
}

// abort breaks the connection: what the caller has got is not all.
func (f *forwarding) abort(err error) {
	f.g.s.log.Debug("answer cut off", "method", f.x.procedure.name, "error", err)
	panic(http.ErrAbortHandler)
}

// trailers passes on what gRPC says last.
func (f *forwarding) trailers(res *http.Response) {
	for k, vs := range res.Trailer {
		f.x.Header()[http.TrailerPrefix+k] = vs
	}
}

// framing is how the messages of a body are told apart.
type framing int

const (
	unframed framing = iota
	connectFrames
	grpcFrames
	webFrames
)

func framingOf(contentType string) framing {
	switch {
	case strings.HasPrefix(contentType, "application/connect+"):
		return connectFrames
	case strings.HasPrefix(contentType, "application/grpc-web"):
		return webFrames
	case strings.HasPrefix(contentType, "application/grpc"):
		return grpcFrames
	default:
		return unframed
	}
}

// ended reports whether a frame with these flags is the last.
func (k framing) ended(flags byte) bool {
	return k == connectFrames && flags&0x02 != 0 || k == webFrames && flags&0x80 != 0
}

var (
	errCut  = errors.New("the answer has no end")
	errTorn = errors.New("the answer ends within a message")
)

// frames passes an answer back message by message, so that one that is cut off
// still gets an end in the caller's protocol.
func (f *forwarding) frames(res *http.Response, k framing) error {
	f.x.WriteHeader(res.StatusCode)
	f.x.Flush() // the headers tell the caller of a stream that it is connected
	if f.x.procedure.stream {
		_ = f.x.rc.SetWriteDeadline(time.Time{}) // messages may be days apart
	}
	ended, err := f.copyFrames(res.Body, k)
	if err == nil && k == grpcFrames {
		ended = res.Trailer.Get("Grpc-Status") != ""
		f.trailers(res)
	}
	switch {
	case err == nil && ended, f.in.Context().Err() != nil:
		return nil
	case errors.Is(err, errTorn):
		f.abort(err)
	case err == nil:
		err = errCut
	}
	f.finish(k, err)
	return err
}

// copyFrames copies messages until there are no more. ended says that the last of
// them says so itself.
func (f *forwarding) copyFrames(body io.Reader, k framing) (ended bool, err error) {
	buffer := make([]byte, 5, 4096)
	for {
		buffer = buffer[:5]
		if _, err := io.ReadFull(body, buffer); err != nil {
			if err == io.EOF {
				err = nil
			}
			return ended, err
		}
		ended = k.ended(buffer[0])
		n := int64(binary.BigEndian.Uint32(buffer[1:5]))
		if n > maxHeld {
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
			return false, fmt.Errorf("%w: %w", errCut, err)
		}
		f.write(buffer)
	}
}

// copyLarge passes on a message that is too large to be held back.
func (f *forwarding) copyLarge(head []byte, body io.Reader, n int64) error {
	f.write(head)
	if _, err := io.CopyN(f.x, body, n); err != nil {
		return fmt.Errorf("%w: %w", errTorn, err)
	}
	f.x.Flush()
	return nil
}

// write passes one message on. A caller who does not take it ends the call.
func (f *forwarding) write(frame []byte) {
	if f.x.procedure.stream {
		_ = f.x.rc.SetWriteDeadline(time.Now().Add(watchWrite))
		defer func() { _ = f.x.rc.SetWriteDeadline(time.Time{}) }()
	}
	if _, err := f.x.Write(frame); err != nil {
		f.cancel(err)
		return
	}
	f.x.Flush()
}

// finish ends an answer that was cut off between two messages. The commands of a
// Pipe that were not answered may have been carried out, so that it does not get a
// Failure, which says that they were not.
func (f *forwarding) finish(k framing, err error) {
	e := connect.NewError(connect.CodeUnavailable, fmt.Errorf("the node that leads does not answer: %w", err))
	if f.x.procedure.class != piping {
		e = wire.ToConnect(wire.FromError(opError(f.x.procedure, f.why(err)), f.x.procedure.op, txn.ID{}))
	}
	t := &tail{x: f.x, header: make(http.Header)}
	f.g.answer(t, f.in, e)
	switch k {
	case grpcFrames:
		for name, vs := range t.header {
			if strings.HasPrefix(name, "Grpc-") || strings.HasPrefix(name, "Txmgr-") {
				f.x.Header()[http.TrailerPrefix+name] = vs
			}
		}
	case webFrames:
		t.webTrailers()
	}
}

// tail is the rest of an answer whose headers are gone.
type tail struct {
	x      *exchange
	header http.Header
}

// Header implements [http.ResponseWriter].
func (t *tail) Header() http.Header { return t.header }

// WriteHeader implements [http.ResponseWriter].
func (t *tail) WriteHeader(int) {}

// Write implements [http.ResponseWriter].
func (t *tail) Write(p []byte) (int, error) { return t.x.Write(p) }

// webTrailers writes headers in the form that gRPC-Web has for what comes last.
func (t *tail) webTrailers() {
	var b strings.Builder
	for name, vs := range t.header {
		for _, v := range vs {
			if name != "Content-Type" {
				fmt.Fprintf(&b, "%s: %s\r\n", strings.ToLower(name), v)
			}
		}
	}
	frame := binary.BigEndian.AppendUint32([]byte{0x80}, uint32(b.Len()))
	_, _ = t.x.Write(append(frame, b.String()...)) // the caller is gone
}
