package peer

import "net"

// conn is a connection whose two sides have identified each other.
type conn struct {
	net.Conn          // with TLS, where there is TLS
	raw      net.Conn // without
	server   *Server
	kind     byte     // frameRaft or frameCall
	accepted bool     // the other side dialed
	other    Identity // what the other side reported in the handshake; guarded by connTable.mu
}

// Close cuts the connection at once: closing TLS would wait, for seconds, for a side that does not
// read.
func (c *conn) Close() error {
	c.server.conns.remove(c)
	return c.raw.Close()
}
