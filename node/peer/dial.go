package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// maxRedirects is how often a request is redirected by a node that does not lead.
const maxRedirects = 3

var longAgo = time.Unix(1, 0)

// Hello asks the node at an address for its identity. The error is [txn.ErrUnavailable] when it
// cannot be reached, and one with [txn.ErrDenied] when it refuses this node:
// [ErrRemoved], [ErrClusterMismatch].
func (p *Server) Hello(ctx context.Context, addr string) (Identity, error) {
	return p.call(ctx, addr, request{Method: methodHello})
}

// Join asks the node at an address, or the leader that it names, to add this node as it is
// (Config.Self), and returns the identity of the node that did. Errors are as for Hello, and those
// of that node's [Handler]. After [txn.ErrUnavailable] the node may have been added: ask again.
func (p *Server) Join(ctx context.Context, addr string) (Identity, error) {
	return p.callLeader(ctx, addr, request{Method: methodJoin, From: p.conf.Self()})
}

// Leave asks the node at an address, or the leader that it names, to remove this node
// permanently, because an operator said so: by, for a reason; both may be empty, and have at most
// [txn.MaxName] and [txn.MaxReason] bytes. Errors are as for Join.
func (p *Server) Leave(ctx context.Context, addr, by, reason string) (Identity, error) {
	return p.callLeader(ctx, addr, request{Method: methodLeave, From: p.conf.Self(), By: by, Reason: reason})
}

// ConsentToBootstrap asks the node at an address for its consent that this node bootstraps a
// cluster with it and the others among the members. Errors are as for Join.
func (p *Server) ConsentToBootstrap(ctx context.Context, addr string, members []Member) error {
	_, err := p.call(ctx, addr, request{Method: methodConsent, From: p.conf.Self(), Members: members})
	return err
}

func (p *Server) callLeader(ctx context.Context, addr string, q request) (Identity, error) {
	for redirects := 0; ; redirects++ {
		who, err := p.call(ctx, addr, q)
		n := (*NotLeaderError)(nil)
		if !errors.As(err, &n) || n.Leader == "" || n.Leader == addr || redirects == maxRedirects {
			return who, err
		}
		addr = n.Leader
	}
}

// call sends one request on a connection of its own.
func (p *Server) call(ctx context.Context, addr string, q request) (Identity, error) {
	c, err := p.dial(ctx, addr, frameCall, "")
	if err != nil {
		return Identity{}, err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(requestTimeout + handshakeTimeout))
	defer context.AfterFunc(ctx, func() { _ = c.raw.SetDeadline(longAgo) })()
	err = writeFrame(c, frameRequest, q)
	var a response
	if err == nil {
		a, err = readResponse(c)
	}
	if err != nil {
		return Identity{}, p.unreachableError(ctx, addr, err)
	}
	if err := a.Fault.err(); err != nil {
		return a.Self, fmt.Errorf("the node at %s: %w", addr, err)
	}
	return a.Self, nil
}

// dial connects to the node at an address. When want is not empty, only the node with that id is
// accepted.
func (p *Server) dial(ctx context.Context, addr string, kind byte, want string) (*conn, error) {
	dialing, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	d := net.Dialer{KeepAliveConfig: keepAlive}
	raw, err := d.DialContext(dialing, "tcp", addr)
	if err != nil {
		return nil, p.unreachableError(ctx, addr, err)
	}
	c := &conn{Conn: raw, raw: raw, server: p, kind: kind}
	if err := p.dialHandshake(ctx, c, want); err != nil {
		_ = c.Close()
		err = p.unreachableError(ctx, addr, err)
		if isRejected(err) {
			p.warn("dial "+addr, "no way to a node", "address", addr, "error", err)
		}
		return nil, err
	}
	return c, nil
}

// dialHandshake performs the dialer's side of the handshake.
func (p *Server) dialHandshake(ctx context.Context, c *conn, want string) error {
	if err := p.conns.add(c); err != nil {
		return err
	}
	_ = c.raw.SetDeadline(time.Now().Add(handshakeTimeout))
	defer context.AfterFunc(ctx, func() { _ = c.raw.SetDeadline(longAgo) })()
	inner, err := p.certificates.dial(c.raw)
	if err != nil {
		return err
	}
	c.Conn = inner
	self := p.conf.Self()
	err = writeFrame(c.Conn, c.kind, self.handshakeIdentity())
	var w helloReply
	if err == nil {
		w, err = readHelloReply(c.Conn)
	}
	if remote := (*net.OpError)(nil); errors.As(err, &remote) && remote.Op == "remote error" {
		return fmt.Errorf("%w: it does not accept this node's certificate: %w", errTLS, err)
	}
	if err != nil {
		return err
	}
	if err := w.Fault.err(); err != nil {
		return err
	}
	if want != "" && w.Self.ID != want {
		return fmt.Errorf("%w: node %s instead of %s", ErrIDMismatch, w.Self.ID, want)
	}
	p.conns.setIdentity(c, w.Self)
	if err := p.authorize(self, c.kind, w.Self); err != nil {
		return err
	}
	return c.raw.SetDeadline(time.Time{})
}

// isRejected reports whether a node answered, but refused the connection.
func isRejected(err error) bool {
	for _, e := range []error{txn.ErrDenied, ErrIDMismatch, errMalformed, errVersion, errTLS} {
		if errors.Is(err, e) {
			return !isDisconnect(err)
		}
	}
	return false
}

// unreachableError adds which node could not be reached. A node's own answer stays as it
// is.
func (p *Server) unreachableError(ctx context.Context, addr string, err error) error {
	switch {
	case ctx.Err() != nil:
		err = fmt.Errorf("%w: %w", ctx.Err(), err)
	case p.ctx.Err() != nil:
		err = errClosed
	}
	if errors.Is(err, txn.ErrDenied) || errors.Is(err, txn.ErrUnavailable) {
		return fmt.Errorf("the node at %s: %w", addr, err)
	}
	return fmt.Errorf("%w: the node at %s: %w", txn.ErrUnavailable, addr, err)
}
