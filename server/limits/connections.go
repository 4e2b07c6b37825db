package limits

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
)

// Connections limits open connections. It closes those above the limit at once, so that the
// client can go to another node without delay.
type Connections struct {
	maxOpen        int64
	perAddress     int          // of them from one address
	open, rejected atomic.Int64 // rejected: closed at once

	mu           sync.Mutex
	openByPrefix map[netip.Prefix]int // guarded by mu: how many are open
}

// NewConnections makes a limit of open connections, and of those from one [Network].
func NewConnections(maxOpen, perAddress int) *Connections {
	return &Connections{maxOpen: int64(maxOpen), perAddress: perAddress, openByPrefix: make(map[netip.Prefix]int)}
}

// Open returns the number of open connections.
func (l *Connections) Open() int64 { return l.open.Load() }

// Rejected returns how many connections were rejected so far.
func (l *Connections) Rejected() int64 { return l.rejected.Load() }

// Limit returns a listener whose connections count.
func (l *Connections) Limit(ln net.Listener) net.Listener { return &listener{ln, l} }

type listener struct {
	net.Listener
	limit *Connections
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		prefix := Network(c.RemoteAddr().String())
		if !l.limit.acquire(prefix) {
			l.limit.rejected.Add(1)
			_ = c.Close() // nothing was sent on it
			continue
		}
		return &trackedConn{Conn: c, onClose: sync.OnceFunc(func() { l.limit.release(prefix) })}, nil
	}
}

// acquire counts a connection, and reports whether it is below the limits. A connection
// without a network address is subject to the total limit only.
func (l *Connections) acquire(prefix netip.Prefix) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open.Load() >= l.maxOpen || prefix.IsValid() && l.openByPrefix[prefix] >= l.perAddress {
		return false
	}
	l.open.Add(1)
	l.openByPrefix[prefix]++
	return true
}

func (l *Connections) release(prefix netip.Prefix) {
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

// Network returns the network that one client is assumed to hold: an IPv4 address, or an
// IPv6 /64.
func Network(remote string) netip.Prefix {
	a, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	ip, bits := a.Addr().Unmap(), 32
	if ip.Is6() {
		bits = 64
	}
	p, _ := ip.WithZone("").Prefix(bits) // the bits fit
	return p
}
