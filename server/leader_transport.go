package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/txmgr/txmgr/internal/certs"
)

// leaderTransports are the connections to the leader. Calls and streams have separate ones,
// so that a Pipe whose commands wait does not delay other calls.
type leaderTransports struct{ calls, streams *http.Transport }

func (p *leaderTransports) forClass(c callClass) *http.Transport {
	if c == bidi {
		return p.streams
	}
	return p.calls
}

func (p *leaderTransports) close() {
	p.calls.CloseIdleConnections()
	p.streams.CloseIdleConnections()
}

// openTLS opens the certificates: those to serve with and those to reach the other nodes
// with; both are nil without TLS.
func openTLS(cfg Config) (own, others *certs.Store, err error) {
	if !cfg.TLS.enabled() {
		return nil, nil, nil
	}
	own, err = certs.Open(certs.Files{Cert: cfg.TLS.CertFile, Key: cfg.TLS.KeyFile, CA: cfg.TLS.ClientCAFile}, cfg.Log)
	if err != nil {
		return nil, nil, fmt.Errorf("server: %w", err)
	}
	others, err = certs.Open(certs.Files{Cert: cfg.TLS.CertFile, Key: cfg.TLS.KeyFile, CA: cfg.TLS.CAFile}, cfg.Log)
	if err != nil {
		return nil, nil, fmt.Errorf("server: %w", err)
	}
	return own, others, nil
}

// serverTLS is the TLS configuration of the server; nil without certificates. It requests
// client certificates, and [auth.Authenticator.Authorize] requires them: health needs none.
func serverTLS(own *certs.Store) (*tls.Config, error) {
	if own == nil {
		return nil, nil
	}
	config, err := own.Server(false)
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	return config, nil
}

// forwardDialTimeout is how long connecting to the leader may take.
const forwardDialTimeout = 2 * time.Second

// newLeaderTransports makes the transports; store is nil without certificates.
func newLeaderTransports(cfg Config, store *certs.Store) *leaderTransports {
	return &leaderTransports{calls: newTransport(cfg, store), streams: newTransport(cfg, store)}
}

func newTransport(cfg Config, store *certs.Store) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	dialer := &net.Dialer{Timeout: forwardDialTimeout}
	t := &http.Transport{
		Protocols:           protocols,
		DialContext:         dialer.DialContext,
		TLSHandshakeTimeout: forwardDialTimeout,
		DisableCompression:  true, // bodies are forwarded unchanged
		IdleConnTimeout:     cfg.IdleTimeout,
		HTTP2: &http.HTTP2Config{
			MaxReadFrameSize: 1 << 20,
			// The limit is per stream: a client that does not read blocks its own stream, not
			// the connection that all clients share.
			MaxReceiveBufferPerStream: 1 << 20,
			// A node that is gone without closing its connections must not block calls.
			SendPingTimeout:  2 * time.Second,
			PingTimeout:      2 * time.Second,
			WriteByteTimeout: 5 * time.Second,
		},
	}
	if store == nil {
		return t
	}
	// A configuration for each connection: the authorities may change at run time.
	t.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, 2*forwardDialTimeout)
		defer cancel()
		raw, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		config := store.Client(host)
		config.NextProtos = []string{"h2"}
		c := tls.Client(raw, config)
		if err := c.HandshakeContext(ctx); err != nil {
			_ = raw.Close() // the error of the handshake is returned
			return nil, err
		}
		return c, nil
	}
	return t
}
