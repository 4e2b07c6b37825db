package forward

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"

	"github.com/txmgr/txmgr/internal/certs"
)

// leaderTransports are the connections to the leader. Calls and streams have separate ones,
// so that a Pipe whose commands wait does not delay other calls.
type leaderTransports struct{ calls, streams *http.Transport }

func (p *leaderTransports) forMethod(m Method) *http.Transport {
	if m.Bidi {
		return p.streams
	}
	return p.calls
}

func (p *leaderTransports) close() {
	p.calls.CloseIdleConnections()
	p.streams.CloseIdleConnections()
}

// forwardDialTimeout is how long connecting to the leader may take.
const forwardDialTimeout = 2 * time.Second

// newLeaderTransports makes the transports; store is nil without certificates.
func newLeaderTransports(idle time.Duration, store *certs.Store) *leaderTransports {
	return &leaderTransports{calls: newTransport(idle, store), streams: newTransport(idle, store)}
}

func newTransport(idle time.Duration, store *certs.Store) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	dialer := &net.Dialer{Timeout: forwardDialTimeout}
	t := &http.Transport{
		Protocols:           protocols,
		DialContext:         dialer.DialContext,
		TLSHandshakeTimeout: forwardDialTimeout,
		DisableCompression:  true, // bodies are forwarded unchanged
		IdleConnTimeout:     idle,
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
