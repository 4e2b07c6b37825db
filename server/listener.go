package server

import (
	"net"
	"sync"
	"sync/atomic"
)

// limited is a listener that closes connections at once when there are too many:
// whoever is shed learns it, and can go to another node.
type limited struct {
	net.Listener
	open, shed *atomic.Int64
	most       int64
}

// Accept implements [net.Listener].
func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) > l.most {
			l.open.Add(-1)
			l.shed.Add(1)
			_ = c.Close() // nothing was said on it
			continue
		}
		return &counted{Conn: c, closed: sync.OnceFunc(func() { l.open.Add(-1) })}, nil
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
