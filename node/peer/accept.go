package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// accept takes connections until the server is closed.
func (p *Server) accept() {
	const pause = 50 * time.Millisecond // used when the process has no file descriptor left
	for {
		raw, err := p.listener.Accept()
		switch {
		case err == nil:
			g := p.handshakes.add(raw)
			p.work.Go(func() { p.serveConn(g) })
		case p.ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			return
		default:
			p.warn("accept", "no connection of a peer can be taken", "error", err)
			select {
			case <-time.After(pause):
			case <-p.ctx.Done():
				return
			}
		}
	}
}

// serveConn identifies the other side, and passes the connection on.
func (p *Server) serveConn(g *pendingConn) {
	c, err := p.acceptHandshake(g.raw)
	if err != nil {
		p.logRejected(g, err)
		closeWriteAndDrain(g.raw)
		p.handshakes.remove(g)
		_ = g.raw.Close()
		return
	}
	p.handshakes.remove(g)
	if c.kind == frameRaft {
		p.streamLayer.deliver(c)
		return
	}
	defer c.Close()
	p.serveRequest(c)
}

// acceptHandshake performs the acceptor's side of the handshake.
func (p *Server) acceptHandshake(raw net.Conn) (*conn, error) {
	_ = raw.SetDeadline(time.Now().Add(handshakeTimeout))
	inner, err := p.certificates.accept(raw)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: inner, raw: raw, server: p, accepted: true}
	h, err := readHello(c.Conn)
	if errors.Is(err, errVersion) {
		_ = writeFrame(c.Conn, frameHelloReply, helloReply{p.conf.Self().handshakeIdentity(), faultOf(err)})
	}
	if err != nil {
		return nil, err
	}
	c.kind, c.other = h.kind, h.from
	self := p.conf.Self()
	if err = p.conns.add(c); err == nil {
		err = p.authorize(self, c.kind, h.from)
	}
	switch {
	case err != nil:
	case c.kind == frameGroup:
		err = fmt.Errorf("%w: group %d is not served here: node %s has only group 0", errNoGroup, h.group, self.ID)
	case c.kind == frameRaft && !p.streamLayer.open.Load():
		err = fmt.Errorf("%w: node %s has not started raft yet", txn.ErrUnavailable, self.ID)
	}
	if sent := writeFrame(c.Conn, frameHelloReply, helloReply{self.handshakeIdentity(), faultOf(err)}); err == nil {
		err = sent
	}
	if err != nil {
		p.conns.remove(c)
		return nil, fmt.Errorf("node %q: %w", h.from.ID, err)
	}
	_ = raw.SetDeadline(time.Time{})
	return c, nil
}

// logRejected logs for operators which connection was refused, but not those that disconnect
// before they identify themselves: health checks do so all day.
func (p *Server) logRejected(g *pendingConn, err error) {
	switch {
	case isDisconnect(err) || errors.Is(err, txn.ErrUnavailable):
		p.conf.Logger.Debug("a connection of a peer came to nothing", "remote", g.raw.RemoteAddr(), "error", err)
	case errors.Is(err, txn.ErrDenied):
		p.warn("denied "+g.host, "a node was refused", "remote", g.raw.RemoteAddr(), "error", err)
	default:
		p.warn("stranger "+g.host, "a connection to the port for peers was refused", "remote", g.raw.RemoteAddr(), "error", err)
	}
}

// isDisconnect reports whether the other side sent nothing wrong, but only disconnected, or
// sent nothing at all.
func isDisconnect(err error) bool {
	for _, e := range []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, os.ErrDeadlineExceeded, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// closeWriteAndDrain lets the other side read why it was refused: closing a connection with unread
// data of the other side would discard the reason.
func closeWriteAndDrain(raw net.Conn) {
	t, ok := raw.(*net.TCPConn)
	if !ok || t.CloseWrite() != nil {
		return
	}
	_ = t.SetReadDeadline(time.Now().Add(time.Second))
	_, _ = io.CopyN(io.Discard, t, 2*maxRequestBytes)
}

// serveRequest serves the one request of a connection.
func (p *Server) serveRequest(c *conn) {
	_ = c.SetDeadline(time.Now().Add(handshakeTimeout))
	q, err := readRequest(c)
	if err != nil {
		if !isDisconnect(err) {
			p.warn("question "+c.other.ID, "a node's question was not understood", "node", c.other.ID, "remote", c.RemoteAddr(), "error", err)
		}
		return
	}
	_ = c.SetDeadline(time.Time{})
	ctx, cancel := context.WithTimeout(p.ctx, requestTimeout)
	defer cancel()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = c.Read(make([]byte, 1))
		cancel()
	}()
	if err = p.handle(ctx, c.other, q); err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: the question ended before its answer: %w", txn.ErrUnavailable, err)
	}
	_ = c.SetWriteDeadline(time.Now().Add(handshakeTimeout))
	if err := writeFrame(c, frameResponse, response{p.conf.Self(), faultOf(err)}); err != nil && !isDisconnect(err) {
		p.warn("answer "+c.other.ID, "a node could not be answered", "node", c.other.ID, "error", err)
	}
	_ = c.Close()
	<-gone
}

func (p *Server) handle(ctx context.Context, other Identity, q request) error {
	if q.Method == methodHello {
		return nil
	}
	if q.From.ID != other.ID {
		return fmt.Errorf("%w: node %s asks for node %s", txn.ErrDenied, other.ID, q.From.ID)
	}
	if p.conf.Handler == nil {
		return fmt.Errorf("%w: this node is not part of a cluster", txn.ErrUnavailable)
	}
	select {
	case p.requestSlots <- struct{}{}:
		defer func() { <-p.requestSlots }()
	default:
		return fmt.Errorf("%w: %d nodes are asking already", txn.ErrUnavailable, maxConcurrentRequests)
	}
	switch q.Method {
	case methodJoin:
		return p.conf.Handler.Join(ctx, q.From)
	case methodConsent:
		return p.conf.Handler.ConsentToBootstrap(ctx, q.From, q.Members)
	default:
		return p.conf.Handler.Leave(ctx, q.From, q.By, q.Reason)
	}
}
