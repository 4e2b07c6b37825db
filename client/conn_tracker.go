package client

import (
	"context"
	"net"
	"sync"
	"time"
)

// connTracker makes connections and tracks them, because [Client.Close] promises that none is
// left: net/http closes only idle ones, and a stream that has just been cancelled still
// counts as busy.
type connTracker struct {
	dialer net.Dialer

	mu     sync.Mutex // guards everything below
	open   map[*trackedConn]struct{}
	closed bool
}

func newConnTracker() *connTracker {
	return &connTracker{
		dialer: net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second},
		open:   make(map[*trackedConn]struct{}),
	}
}

func (c *connTracker) dial(ctx context.Context, network, address string) (net.Conn, error) {
	nc, err := c.dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	k := &trackedConn{Conn: nc, tracker: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		_ = nc.Close() // nothing was sent
		return nil, errClosed
	}
	c.open[k] = struct{}{}
	return k, nil
}

// close closes all connections, and cancels dials in progress.
func (c *connTracker) close() {
	c.mu.Lock()
	c.closed = true
	left := make([]*trackedConn, 0, len(c.open))
	for k := range c.open {
		left = append(left, k)
	}
	c.mu.Unlock()
	for _, k := range left {
		_ = k.Close() // the client is closed
	}
}

// trackedConn is a connection that leaves its tracker when it is closed.
type trackedConn struct {
	net.Conn
	tracker *connTracker
}

// Close implements [net.Conn].
func (k *trackedConn) Close() error {
	k.tracker.mu.Lock()
	delete(k.tracker.open, k)
	k.tracker.mu.Unlock()
	return k.Conn.Close()
}
