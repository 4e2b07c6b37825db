package client

import (
	"context"
	"net"
	"sync"
	"time"
)

// conns makes connections and keeps them, because [Client.Close] promises that
// none is left: net/http closes the idle ones only, and a stream that has just
// been cancelled still counts as busy.
type conns struct {
	dialer net.Dialer

	mu     sync.Mutex // guards everything below
	open   map[*conn]struct{}
	closed bool
}

func newConns() *conns {
	return &conns{
		dialer: net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second},
		open:   make(map[*conn]struct{}),
	}
}

func (c *conns) dial(ctx context.Context, network, address string) (net.Conn, error) {
	nc, err := c.dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	k := &conn{Conn: nc, of: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		_ = nc.Close() // nothing was sent
		return nil, errClosed
	}
	c.open[k] = struct{}{}
	return k, nil
}

// close ends all connections, and those that are being made.
func (c *conns) close() {
	c.mu.Lock()
	c.closed = true
	left := make([]*conn, 0, len(c.open))
	for k := range c.open {
		left = append(left, k)
	}
	c.mu.Unlock()
	for _, k := range left {
		_ = k.Close() // nobody is interested any more
	}
}

// conn is a connection that says when it is closed.
type conn struct {
	net.Conn
	of *conns
}

// Close implements [net.Conn].
func (k *conn) Close() error {
	k.of.mu.Lock()
	delete(k.of.open, k)
	k.of.mu.Unlock()
	return k.Conn.Close()
}
