// Package conntrack makes connections and closes them all at once:
//
//	t := conntrack.New(5*time.Second, errClosed)
//	transport := &http.Transport{DialContext: t.Dial}
//	...
//	t.Close()
package conntrack

import (
	"context"
	"net"
	"sync"
	"time"
)

// Tracker makes connections and tracks them, so that none is left after Close: net/http closes
// only idle ones, and a stream that has just been cancelled still counts as busy. Make one with
// [New]; safe for concurrent use.
type Tracker struct {
	dialer    net.Dialer
	errClosed error

	mu     sync.Mutex // guards everything below
	open   map[*trackedConn]struct{}
	closed bool
}

// New returns a tracker. Dialling takes timeout at most; after Close its error is errClosed.
func New(timeout time.Duration, errClosed error) *Tracker {
	return &Tracker{
		dialer:    net.Dialer{Timeout: timeout, KeepAlive: 15 * time.Second},
		errClosed: errClosed,
		open:      make(map[*trackedConn]struct{}),
	}
}

// Dial connects, as [net.Dialer.DialContext] does.
func (c *Tracker) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	nc, err := c.dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	k := &trackedConn{Conn: nc, tracker: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		_ = nc.Close() // nothing was sent
		return nil, c.errClosed
	}
	c.open[k] = struct{}{}
	return k, nil
}

// Close closes all connections, and those whose dialling is in progress as soon as they are made.
func (c *Tracker) Close() {
	c.mu.Lock()
	c.closed = true
	left := make([]*trackedConn, 0, len(c.open))
	for k := range c.open {
		left = append(left, k)
	}
	c.mu.Unlock()
	for _, k := range left {
		_ = k.Close() // nothing is sent any more
	}
}

// trackedConn is a connection that leaves its tracker when it is closed.
type trackedConn struct {
	net.Conn
	tracker *Tracker
}

// Close implements [net.Conn].
func (k *trackedConn) Close() error {
	k.tracker.mu.Lock()
	delete(k.tracker.open, k)
	k.tracker.mu.Unlock()
	return k.Conn.Close()
}
