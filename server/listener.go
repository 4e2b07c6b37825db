package server

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
)

// limited is a listener that closes connections at once when there are too many:
// whoever is shed learns it, and can go to another node.
type limited struct {
	net.Listener
	open, shed *atomic.Int64
	most       int64
	each       int // of them from one address

	mu   sync.Mutex
	from map[netip.Prefix]int // guarded by mu: how many are open
}

// Accept implements [net.Listener].
func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		who := networkOf(c.RemoteAddr().String())
		if !l.enter(who) {
			l.shed.Add(1)
			_ = c.Close() // nothing was said on it
			continue
		}
		return &counted{Conn: c, closed: sync.OnceFunc(func() { l.leave(who) })}, nil
	}
}

// enter counts a connection, if there is room for it. Who has no address of a network
// is limited by the room for all.
func (l *limited) enter(who netip.Prefix) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open.Load() >= l.most || who.IsValid() && l.from[who] >= l.each {
		return false
	}
	l.open.Add(1)
	l.from[who]++
	return true
}

func (l *limited) leave(who netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open.Add(-1)
	if l.from[who]--; l.from[who] == 0 {
		delete(l.from, who)
	}
}

// counted is a connection that is counted until it is closed.
type counted struct {
	net.Conn
	closed func()
}

// Close implements [net.Conn].
func (c *counted) Close() error {
	defer c.closed()
	return c.Conn.Close()
}
