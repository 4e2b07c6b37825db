package forward

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"

	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/server/pipeline"
	"github.com/txmgr/txmgr/txn"
)

// request builds the request to the leader.
func (f *proxyCall) request(api string) (*http.Request, error) {
	to, err := url.Parse(api)
	if err != nil || to.Host == "" {
		return nil, fmt.Errorf("%w: the node that leads is at %q, which is no URL", txn.ErrUnavailable, api)
	}
	in := f.Request
	body, size, err := f.body(in)
	if err != nil {
		return nil, err
	}
	ctx := httptrace.WithClientTrace(f.ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { f.sent.Store(true) }})
	out := (&http.Request{
		Method: in.Method,
		URL:    &url.URL{Scheme: to.Scheme, Host: to.Host, Path: strings.TrimSuffix(to.Path, "/") + in.URL.Path, RawQuery: in.URL.RawQuery},
		// The host that the client used: the leader compares it with the Origin header.
		Host:          in.Host,
		Header:        forwardHeaders(in.Header),
		Body:          body,
		ContentLength: size,
	}).WithContext(ctx)
	if strings.Contains(in.Header.Get("Te"), "trailers") {
		out.Header.Set("Te", "trailers")
	}
	out.Header.Set(wire.HeaderForwarded, f.forwarder.nodeName())
	return out, nil
}

// body returns the body to send to the leader. It is read completely first, so that a slow
// client occupies nothing on the leader; the body of a Pipe is streamed.
func (f *proxyCall) body(in *http.Request) (io.ReadCloser, int64, error) {
	if f.Method.Bidi {
		reading := pipeline.NewReadAborter(f.rc)
		stop := context.AfterFunc(f.Lifetime, reading.Abort)
		return &clientStream{ReadCloser: in.Body, lifetime: f.Lifetime, done: func() {
			stop()
			reading.Release()
		}}, -1, nil
	}
	if in.ContentLength == 0 || in.Body == nil {
		return http.NoBody, 0, nil
	}
	data, err := io.ReadAll(in.Body)
	if err != nil {
		return nil, 0, fmt.Errorf("%w: the body of the call did not arrive: %w", txn.ErrInvalid, err)
	}
	return io.NopCloser(bytes.NewReader(data)), int64(len(data)), nil
}

// clientStream is the request stream of a forwarded Pipe. It ends when the call has to end:
// the commands sent so far are answered, and the client sends the rest to another node.
type clientStream struct {
	io.ReadCloser
	lifetime context.Context
	done     func()
}

// Read implements [io.Reader].
func (u *clientStream) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	if err != nil && u.lifetime.Err() != nil {
		err = io.EOF
	}
	return n, err
}

// Close implements [io.Closer].
func (u *clientStream) Close() error {
	u.done()
	return u.ReadCloser.Close()
}

// hopByHop are the headers that concern one connection only.
var hopByHop = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Expect",
}

// forwardHeaders returns the headers to forward.
func forwardHeaders(h http.Header) http.Header {
	h = h.Clone()
	for _, named := range h["Connection"] {
		for name := range strings.SplitSeq(named, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hopByHop {
		h.Del(name)
	}
	return h
}
