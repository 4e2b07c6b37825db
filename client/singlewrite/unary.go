package singlewrite

import (
	"bytes"
	"errors"
	"io"
	"net/http"
)

// Unary sends requests of one message. net/http sends the head of a request by itself when it does
// not know the type of the body, which could be slow to come. The connect library has such a type;
// Unary gives net/http a known one.
func Unary(t *http.Transport) http.RoundTripper { return unary{t} }

type unary struct{ *http.Transport }

// RoundTrip implements [http.RoundTripper].
func (f unary) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil || r.ContentLength <= 0 {
		return f.Transport.RoundTrip(r)
	}
	body := make([]byte, r.ContentLength)
	_, err := io.ReadFull(r.Body, body)
	if err = errors.Join(err, r.Body.Close()); err != nil {
		return nil, err
	}
	r = r.WithContext(r.Context()) // a copy: the original belongs to the caller
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	r.Body, _ = r.GetBody()
	return f.Transport.RoundTrip(r)
}
