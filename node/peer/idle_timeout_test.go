package peer

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// TestAStreamIsSilentBetweenMessages: for as long as it likes; in the middle of one it is not.
func TestAStreamIsSilentBetweenMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other, here := net.Pipe()
		defer other.Close()
		s := &idleTimeoutConn{conn: &conn{Conn: here, raw: here, server: &Server{conf: Config{idleTimeout: defaultIdleTimeout}}}}
		says := func(after time.Duration, text string) {
			go func() {
				<-time.After(after)
				_, _ = io.WriteString(other, text)
			}()
		}
		var two [2]byte
		for range 3 {
			says(time.Hour, "a")
			says(time.Hour+defaultIdleTimeout-1, "b")
			if _, err := io.ReadFull(s, two[:]); err != nil || string(two[:]) != "ab" {
				t.Fatalf("a message: %q, %v", two, err)
			}
			go func() { _, _ = io.ReadFull(other, make([]byte, 2)) }()
			if _, err := io.WriteString(s, "ok"); err != nil {
				t.Fatal(err)
			}
		}
		says(time.Hour, "a")
		start := time.Now()
		if _, err := io.ReadFull(s, two[:]); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("half a message: %v", err)
		}
		if took := time.Since(start); took != time.Hour+defaultIdleTimeout {
			t.Errorf("it was waited for %v", took)
		}
		start = time.Now()
		if _, err := s.Read(two[:]); err == nil || time.Since(start) > 0 {
			t.Errorf("the rest of it: %v, after %v", err, time.Since(start))
		}
	})
}

// silentConn is a reader that returns a few bytes, and then blocks until it is ended.
type silentConn struct {
	gave bool
	end  <-chan struct{}
}

func (s *silentConn) Read(p []byte) (int, error) {
	if s.gave {
		<-s.end
		return 0, io.ErrUnexpectedEOF
	}
	s.gave = true
	return copy(p, make([]byte, 64<<10)), nil
}

// TestASenderThatFallsSilent: raft reads a snapshot in its main loop, and neither votes nor
// stops until it has it. A sender that is suspended in the middle of one does not keep it from
// that.
func TestASenderThatFallsSilent(t *testing.T) {
	a, b := start(t, "n_a"), start(t, "n_b", func(c *Config) { c.idleTimeout = 100 * time.Millisecond })
	from, to := a.Transport(), b.Transport()
	end, sent := make(chan struct{}), make(chan error, 1)
	defer func() { close(end); <-sent }()
	go func() {
		req := &raft.InstallSnapshotRequest{Term: 1, Size: 1 << 20}
		sent <- from.InstallSnapshot("n_b", raft.ServerAddress(b.Addr()), req, &raft.InstallSnapshotResponse{}, &silentConn{end: end})
	}()
	rpc := <-to.Consumer()
	read := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, rpc.Reader)
		_, again := io.Copy(io.Discard, rpc.Reader) // as raft does
		if again == nil {
			err = nil
		}
		read <- err
	}()
	select {
	case err := <-read:
		if err == nil {
			t.Error("a part of a snapshot was taken for the whole")
		}
	case <-time.After(testTimeout):
		t.Errorf("raft has been reading for %v", testTimeout)
		_ = b.Close()
		<-read
	}
}
