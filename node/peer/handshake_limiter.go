package peer

import (
	"net"
	"slices"
	"sync"
)

const (
	maxPending        = 128 // connections that have not identified themselves
	maxPendingPerHost = 16  // of them, from one address
)

// handshakeLimiter holds the connections that have not identified themselves yet. To make room it
// closes the connection that has waited longest: a node needs milliseconds, so that connection is
// probably not from a node.
type handshakeLimiter struct {
	mu      sync.Mutex // guards all below
	closed  bool
	pending []*pendingConn // longest waiting first
}

type pendingConn struct {
	raw  net.Conn
	host string
}

func (d *handshakeLimiter) add(raw net.Conn) *pendingConn {
	g := &pendingConn{raw: raw, host: remoteHost(raw)}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		_ = raw.Close()
		return g
	}
	sameHost := func(o *pendingConn) bool { return o.host == g.host }
	n := 0
	for _, o := range d.pending {
		if sameHost(o) {
			n++
		}
	}
	switch {
	case n >= maxPendingPerHost:
		d.evictLocked(slices.IndexFunc(d.pending, sameHost))
	case len(d.pending) >= maxPending:
		d.evictLocked(0)
	}
	d.pending = append(d.pending, g)
	return g
}

func (d *handshakeLimiter) remove(g *pendingConn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.Index(d.pending, g); i >= 0 {
		d.pending = slices.Delete(d.pending, i, i+1)
	}
}

func (d *handshakeLimiter) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for len(d.pending) > 0 {
		d.evictLocked(0)
	}
}

func (d *handshakeLimiter) evictLocked(i int) {
	_ = d.pending[i].raw.Close()
	d.pending = slices.Delete(d.pending, i, i+1)
}

func remoteHost(c net.Conn) string {
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return a.IP.String()
	}
	return c.RemoteAddr().String()
}
