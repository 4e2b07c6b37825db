package peer

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// streamLayer is the server as raft sees it: a listener for admitted streams, and a dialer to
// other nodes.
type streamLayer struct {
	server  *Server
	open    atomic.Bool // raft was given the transport
	streams chan net.Conn
	close   sync.Once     // of done
	done    chan struct{} // closed: raft has stopped
}

// idleTimeoutConn is a stream that another node dialed. raft reads a snapshot in its main loop,
// and meanwhile does nothing else there: it neither votes nor stops. So the stream ends when its
// sender stops sending in the middle of a message, as a suspended process does. Between two
// messages it may be idle for any time.
type idleTimeoutConn struct {
	*conn
	inMessage bool // a message has begun and is not answered yet; raft reads and writes in turns
}

// Read implements net.Conn.
func (i *idleTimeoutConn) Read(p []byte) (int, error) {
	var by time.Time
	if i.inMessage {
		by = time.Now().Add(i.server.conf.idleTimeout)
	}
	_ = i.SetReadDeadline(by)
	n, err := i.conn.Read(p)
	i.inMessage = i.inMessage || n > 0
	if errors.Is(err, os.ErrDeadlineExceeded) {
		_ = i.Close() // raft goes on to read what is left of a snapshot
	}
	return n, err
}

// Write implements net.Conn.
func (i *idleTimeoutConn) Write(p []byte) (int, error) {
	i.inMessage = false
	return i.conn.Write(p)
}

// deliver passes a stream to raft, or closes it when raft has stopped.
func (l *streamLayer) deliver(c *conn) {
	select {
	case l.streams <- &idleTimeoutConn{conn: c}:
	case <-l.done:
		_ = c.Close()
	}
}

// Accept implements net.Listener.
func (l *streamLayer) Accept() (net.Conn, error) {
	select {
	case c := <-l.streams:
		return c, nil
	case <-l.done:
		return nil, errClosed
	}
}

// Close implements net.Listener. It ends all streams, those of raft's pool included.
func (l *streamLayer) Close() error {
	l.server.conns.refuseRaft()
	l.close.Do(func() { close(l.done) })
	for _, c := range l.server.conns.list(func(c *conn) bool { return c.kind == frameRaft }) {
		_ = c.Close()
	}
	return nil
}

// Addr implements net.Listener. It returns the advertised address.
func (l *streamLayer) Addr() net.Addr { return address(l.server.listener.advertise) }

// Dial implements raft.StreamLayer. The target comes from targetedTransport.
func (l *streamLayer) Dial(target raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(l.server.ctx, timeout)
	defer cancel()
	id, addr := splitTarget(target)
	return l.server.dial(ctx, addr, frameRaft, id)
}

// address is a net.Addr that may hold a host name.
type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }
