package singlewrite

import (
	"encoding/binary"
	"io"
	"net/http"
)

// Streams sends streams of messages. The connect library writes a message in two pieces, its head
// and its body, and net/http sends each write at once. Streams sends the pieces together.
func Streams(t *http.Transport) http.RoundTripper { return streams{t} }

type streams struct{ *http.Transport }

// RoundTrip implements [http.RoundTripper].
func (f streams) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil && r.ContentLength < 0 {
		r.Body = &frameReader{ReadCloser: r.Body}
	}
	return f.Transport.RoundTrip(r)
}

// frameReader does not end a read within a message if the rest of the message fits.
type frameReader struct {
	io.ReadCloser

	buf  [5]byte // a byte of flags and the length of the body, big-endian
	head []byte  // of buf, not handed out yet
	left int     // bytes of the body that have not been read
}

// Read implements [io.Reader].
func (f *frameReader) Read(p []byte) (int, error) {
	if len(f.head) == 0 && f.left == 0 {
		if _, err := io.ReadFull(f.ReadCloser, f.buf[:]); err != nil {
			return 0, err
		}
		f.head, f.left = f.buf[:], int(binary.BigEndian.Uint32(f.buf[1:]))
	}
	n := copy(p, f.head)
	f.head = f.head[n:]
	more, err := io.ReadFull(f.ReadCloser, p[n:min(len(p), n+f.left)])
	f.left -= more
	return n + more, err
}
