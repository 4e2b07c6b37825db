package peer

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/txmgr/txmgr/internal/certs"
	"github.com/txmgr/txmgr/txn"
)

// certificates are the node's certificate files, and TLS with them on both sides of a connection.
// Nil: no TLS.
type certificates struct {
	store  *certs.PeerStore
	server *tls.Config
	client *tls.Config
}

func openCertificates(c Config) (*certificates, error) {
	if c.TLS == nil {
		return nil, nil
	}
	store, err := certs.OpenPeer(*c.TLS, c.Logger)
	if err != nil {
		return nil, fmt.Errorf("TLS between nodes: %w", err)
	}
	return &certificates{store, store.Server(), store.Client()}, nil
}

func (c *certificates) reload() error {
	if c == nil {
		return nil
	}
	return c.store.Reload()
}

func (c *certificates) expires() time.Time {
	if c == nil {
		return time.Time{}
	}
	return c.store.Expires()
}

// accept performs the acceptor's side of the TLS handshake, and returns the connection inside
// TLS; without certificates, raw itself.
func (c *certificates) accept(raw net.Conn) (net.Conn, error) {
	if c == nil {
		return raw, nil
	}
	t := tls.Server(raw, c.server)
	if err := t.Handshake(); err != nil {
		rejectPlaintext(raw, err)
		return nil, fmt.Errorf("%w: %w", errTLS, err)
	}
	return t, nil
}

// dial performs the dialer's side of the TLS handshake, as accept does the other.
func (c *certificates) dial(raw net.Conn) (net.Conn, error) {
	if c == nil {
		return raw, nil
	}
	t := tls.Client(raw, c.client)
	if err := t.Handshake(); err != nil {
		return nil, fmt.Errorf("%w: %w", errTLS, err)
	}
	return t, nil
}

// rejectPlaintext reports to a node that connects without TLS what is missing. Other callers get no
// answer.
func rejectPlaintext(raw net.Conn, err error) {
	if e := (tls.RecordHeaderError{}); errors.As(err, &e) && string(e.RecordHeader[:len(magic)]) == magic {
		_ = writeFrame(raw, frameHelloReply, helloReply{Fault: faultOf(fmt.Errorf("%w: this port wants TLS, and certificates", txn.ErrDenied))})
	}
}
