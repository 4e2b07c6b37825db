package peer

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// layer is the port as raft sees it: a listener for streams that were let in, and a
// way to others.
type layer struct {
	port    *Port
	open    atomic.Bool // raft was given the transport
	streams chan net.Conn
	done    chan struct{} // closed with closed
	closed  bool          // guarded by Port.mu
}

// deliver hands a stream to raft, or closes it when raft is gone.
func (l *layer) deliver(c *conn) {
	select {
	case l.streams <- c:
	case <-l.done:
		_ = c.Close()
	}
}

// Accept implements net.Listener.
func (l *layer) Accept() (net.Conn, error) {
	select {
	case c := <-l.streams:
		return c, nil
	case <-l.done:
		return nil, errClosed
	}
}

// Close implements net.Listener. It ends all streams, those of raft's pool included.
func (l *layer) Close() error {
	l.port.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.done)
	}
	l.port.mu.Unlock()
	for _, c := range l.port.list(func(c *conn) bool { return c.kind == frameRaft }) {
		_ = c.Close()
	}
	return nil
}

// Addr implements net.Listener, with what others are told.
func (l *layer) Addr() net.Addr { return address(l.port.advertise) }

// Dial implements raft.StreamLayer. The target is one of aimed's.
func (l *layer) Dial(target raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(l.port.ctx, timeout)
	defer cancel()
	id, addr := aim(target)
	return l.port.dial(ctx, addr, frameRaft, id)
}

// address is an address that may hold a name.
type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }
