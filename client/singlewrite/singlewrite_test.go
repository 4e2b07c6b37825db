package singlewrite

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

// For all sizes of messages, pieces and buffers, every byte is read, and no read ends within
// a message that fits.
func TestFramesStayWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var stream []byte
		ends := make(map[int]bool)
		for range rapid.IntRange(0, 8).Draw(t, "messages") {
			n := rapid.IntRange(0, 40).Draw(t, "length")
			stream = append(stream, 0)
			stream = binary.BigEndian.AppendUint32(stream, uint32(n))
			stream = append(stream, bytes.Repeat([]byte{byte(n)}, n)...)
			ends[len(stream)] = true
		}
		var source io.Reader = bytes.NewReader(stream)
		if rapid.Bool().Draw(t, "piecemeal") {
			source = iotest.OneByteReader(source)
		}
		f := &frameReader{ReadCloser: io.NopCloser(source)}
		buf := make([]byte, rapid.IntRange(1, 64).Draw(t, "buffer"))
		var got []byte
		for {
			n, err := f.Read(buf)
			got = append(got, buf[:n]...)
			if err != nil {
				if !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
				break
			}
			if n < len(buf) && !ends[len(got)] {
				t.Fatalf("a read of %d of %d bytes ends within a message", n, len(buf))
			}
		}
		if !bytes.Equal(got, stream) {
			t.Fatalf("%x became %x", stream, got)
		}
	})
}

func TestFrameThatIsCutOff(t *testing.T) {
	for _, stream := range []string{"\x00\x00", "\x00\x00\x00\x00\x09half"} {
		f := &frameReader{ReadCloser: io.NopCloser(bytes.NewReader([]byte(stream)))}
		if _, err := io.ReadAll(f); err == nil {
			t.Errorf("%q: no error", stream)
		}
	}
}

// countedConn counts the writes.
type countedConn struct {
	net.Conn
	writes *atomic.Int64
}

func (c countedConn) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(b)
}

// body is of a type that net/http does not know.
type body struct {
	io.Reader
	closed int
}

func (b *body) Close() error {
	b.closed++
	return nil
}

// TestUnaryIsOneWrite: a request leaves by one write, complete, and the caller's request and body
// are treated as a RoundTripper has to.
func TestUnaryIsOneWrite(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))
	defer s.Close()
	var writes atomic.Int64
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		return countedConn{c, &writes}, err
	}}
	defer transport.CloseIdleConnections()
	const text = "a message"
	for n := range 3 {
		b := &body{Reader: strings.NewReader(text)}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, b)
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = int64(len(text))
		answer, err := Unary(transport).RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(answer.Body)
		if err = errors.Join(err, answer.Body.Close()); err != nil || string(got) != text {
			t.Errorf("request %d: %q, %v", n, got, err)
		}
		if r.Body != b || b.closed != 1 {
			t.Errorf("request %d: the body of the caller's request is %v, and was closed %d times", n, r.Body, b.closed)
		}
	}
	if w := writes.Load(); w != 3 {
		t.Errorf("%d writes for 3 requests", w)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, &body{Reader: strings.NewReader("short")})
	if err != nil {
		t.Fatal(err)
	}
	r.ContentLength = 100
	if answer, err := Unary(transport).RoundTrip(r); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a body that is too short: %v, %v", answer, err)
	}
}
