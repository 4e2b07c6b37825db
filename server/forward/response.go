package forward

import (
	"io"
	"net/http"
	"time"

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

// copyTrailers copies the trailers of a gRPC response.
func (f *proxyCall) copyTrailers(res *http.Response) {
	for k, vs := range res.Trailer {
		f.Writer.Header()[http.TrailerPrefix+k] = vs
	}
}
