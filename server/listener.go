package server

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
)

// limitListener is a listener that closes connections at once when there are too many, so
// that the client can go to another node without delay.
type limitListener struct {
	net.Listener
	open, rejected *atomic.Int64
	maxOpen        int64
	perAddress     int // of them from one address

	mu           sync.Mutex
	openByPrefix map[netip.Prefix]int // guarded by mu: how many are open
}

// Accept implements [net.Listener].
func (l *limitListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		prefix := networkOf(c.RemoteAddr().String())
		if !l.acquire(prefix) {
			l.rejected.Add(1)
			_ = c.Close() // nothing was sent on it
			continue
		}
		return &trackedConn{Conn: c, onClose: sync.OnceFunc(func() { l.release(prefix) })}, nil
	}
}

// acquire counts a connection, and reports whether it is below the limits. A connection
// without a network address is subject to the total limit only.
func (l *limitListener) acquire(prefix netip.Prefix) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open.Load() >= l.maxOpen || prefix.IsValid() && l.openByPrefix[prefix] >= l.perAddress {
		return false
	}
	l.open.Add(1)
	l.openByPrefix[prefix]++
	return true
}

func (l *limitListener) release(prefix netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open.Add(-1)
	if l.openByPrefix[prefix]--; l.openByPrefix[prefix] == 0 {
		delete(l.openByPrefix, prefix)
	}
}

// trackedConn is a connection that counts until it is closed.
type trackedConn struct {
	net.Conn
	onClose func()
}

// Close implements [net.Conn].
func (c *trackedConn) Close() error {
	defer c.onClose()
	return c.Conn.Close()
}
