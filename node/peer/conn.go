package peer

import (
	"fmt"
	"net"

	"github.com/txmgr/txmgr/txn"
)

// conn is a connection whose two sides have identified each other.
type conn struct {
	net.Conn          // with TLS, where there is TLS
	raw      net.Conn // without
	server   *Server
	kind     byte     // frameRaft or frameCall
	accepted bool     // the other side dialed
	other    Identity // what the other side reported in the handshake; guarded by Server.mu
}

// Close cuts the connection at once: closing TLS would wait, for seconds, for a side that does not
// read.
func (c *conn) Close() error {
	c.server.unregister(c)
	return c.raw.Close()
}

// register makes the server responsible for the connection. It precedes the check whether the
// other node is admitted, so that Reauthorize finds a node that is removed in between.
func (p *Server) register(c *conn) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed || c.kind == frameRaft && p.streamLayer.closed:
		return errClosed
	case c.accepted && p.accepted >= maxConns:
		return fmt.Errorf("%w: %d nodes or more are connected already", txn.ErrUnavailable, maxConns)
	}
	p.conns[c] = true
	if c.accepted {
		p.accepted++
	}
	return nil
}

func (p *Server) unregister(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns[c] {
		delete(p.conns, c)
		if c.accepted {
			p.accepted--
		}
	}
}

func (p *Server) list(which func(*conn) bool) []*conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []*conn
	for c := range p.conns {
		if which(c) {
			list = append(list, c)
		}
	}
	return list
}

// setIdentity records the identity of the other side.
func (p *Server) setIdentity(c *conn, other Identity) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.other = other
}

// identified returns the connections whose other side is known, with its identity.
func (p *Server) identified() map[*conn]Identity {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := map[*conn]Identity{}
	for c := range p.conns {
		if c.other.ID != "" {
			known[c] = c.other
		}
	}
	return known
}
