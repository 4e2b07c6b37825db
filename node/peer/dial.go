package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// maxHops is how often a question follows the word of a node that does not lead.
const maxHops = 3

var longAgo = time.Unix(1, 0)

// Hello asks the node at an address who it is. Errors are [txn.ErrUnavailable] when it
// cannot be reached, and one with [txn.ErrDenied] when it refuses this node:
// [ErrRemoved], [ErrForeign].
func (p *Port) Hello(ctx context.Context, addr string) (Identity, error) {
	return p.ask(ctx, addr, question{Ask: askHello})
}

// Join asks the node at an address, or the leader that it names, to add this node as
// it is (Config.Self), and gives the identity of the one that did. Errors are as for
// Hello, and those of the [Handler] there. After [txn.ErrUnavailable] it may have been
// done: ask again.
func (p *Port) Join(ctx context.Context, addr string) (Identity, error) {
	return p.follow(ctx, addr, question{Ask: askJoin, From: p.conf.Self()})
}

// Leave asks the node at an address, or the leader that it names, to remove this node
// for ever. Errors are as for Join.
func (p *Port) Leave(ctx context.Context, addr string) (Identity, error) {
	return p.follow(ctx, addr, question{Ask: askLeave, From: p.conf.Self()})
}

// Found asks the node at an address for its consent that this node founds a cluster
// with it and the others among the members. Errors are as for Join.
func (p *Port) Found(ctx context.Context, addr string, members []Member) error {
	_, err := p.ask(ctx, addr, question{Ask: askFound, From: p.conf.Self(), Members: members})
	return err
}

func (p *Port) follow(ctx context.Context, addr string, q question) (Identity, error) {
	for hops := 0; ; hops++ {
		who, err := p.ask(ctx, addr, q)
		n := (*NotLeader)(nil)
		if !errors.As(err, &n) || n.Leader == "" || n.Leader == addr || hops == maxHops {
			return who, err
		}
		addr = n.Leader
	}
}

// ask asks one question on a connection of its own.
func (p *Port) ask(ctx context.Context, addr string, q question) (Identity, error) {
	c, err := p.dial(ctx, addr, frameAsk, "")
	if err != nil {
		return Identity{}, err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(questionTime + handshakeTime))
	defer context.AfterFunc(ctx, func() { _ = c.raw.SetDeadline(longAgo) })()
	err = writeFrame(c, frameQuestion, q)
	var a answer
	if err == nil {
		a, err = readAnswer(c)
	}
	if err != nil {
		return Identity{}, p.unreached(ctx, addr, err)
	}
	if err := a.Fault.err(); err != nil {
		return a.Self, fmt.Errorf("the node at %s: %w", addr, err)
	}
	return a.Self, nil
}

// dial connects to the node at an address; to the one that is meant, or nobody, when
// want is not empty.
func (p *Port) dial(ctx context.Context, addr string, kind byte, want string) (*conn, error) {
	dialing, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	d := net.Dialer{KeepAliveConfig: keepAlive}
	raw, err := d.DialContext(dialing, "tcp", addr)
	if err != nil {
		return nil, p.unreached(ctx, addr, err)
	}
	c := &conn{Conn: raw, raw: raw, port: p, kind: kind}
	if err := p.introduce(ctx, c, want); err != nil {
		_ = c.Close()
		err = p.unreached(ctx, addr, err)
		if refused(err) {
			p.log.warn("dial "+addr, "no way to a node", "address", addr, "error", err)
		}
		return nil, err
	}
	return c, nil
}

// introduce is the dialer's side of the handshake.
func (p *Port) introduce(ctx context.Context, c *conn, want string) error {
	if err := p.enroll(c); err != nil {
		return err
	}
	_ = c.raw.SetDeadline(time.Now().Add(handshakeTime))
	defer context.AfterFunc(ctx, func() { _ = c.raw.SetDeadline(longAgo) })()
	if p.client != nil {
		t := tls.Client(c.raw, p.client)
		if err := t.Handshake(); err != nil {
			return fmt.Errorf("%w: %w", errTLS, err)
		}
		c.Conn = t
	}
	self := p.conf.Self()
	err := writeFrame(c.Conn, c.kind, self.admission())
	var w welcome
	if err == nil {
		w, err = readWelcome(c.Conn)
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
		return fmt.Errorf("%w: node %s instead of %s", ErrElsewhere, w.Self.ID, want)
	}
	p.learn(c, w.Self)
	if err := p.judge(self, c.kind, w.Self); err != nil {
		return err
	}
	return c.raw.SetDeadline(time.Time{})
}

// refused reports whether somebody is there, but there is no coming together.
func refused(err error) bool {
	for _, e := range []error{txn.ErrDenied, ErrElsewhere, errGarbage, errVersion, errTLS} {
		if errors.Is(err, e) {
			return !knocked(err)
		}
	}
	return false
}

// unreached says which node could not be reached. What it answered itself stays as it
// is.
func (p *Port) unreached(ctx context.Context, addr string, err error) error {
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
