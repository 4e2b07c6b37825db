package forward

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

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
