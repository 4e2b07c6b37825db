package client

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/txmgr/txmgr/api/txmgr/v1/txmgrv1connect"
	"github.com/txmgr/txmgr/client/conntrack"
	"github.com/txmgr/txmgr/client/naming"
	"github.com/txmgr/txmgr/client/singlewrite"
	"github.com/txmgr/txmgr/txn"
)

// Client is the client of a coordinator over the network. Make it with [Dial] or [Open],
// share it, and close it. It implements [txn.Manager].
type Client struct {
	cfg       Config
	endpoints []*endpoint
	current   atomic.Uint32 // the endpoint in use, modulo their number
	reached   atomic.Bool   // a server has answered at least once

	conns          *conntrack.Tracker
	unary, streams *http.Transport
	pipeline       *pipeline
	heartbeats     sync.WaitGroup // keep-alive loops of sessions
	learnt         naming.Memory
	heartbeatsMu   sync.Mutex // held to add a loop, and by Close, after which none is added
	secret         *secret

	ctx   context.Context // ends with Close
	close context.CancelFunc
}

var _ txn.Namer = (*Client)(nil)

// endpoint is one address and its services. Calls that wait or stream share one
// HTTP/2 connection; the others use HTTP/1.1, which costs both sides less.
type endpoint struct {
	base         string
	health       health
	transactions txmgrv1connect.TransactionServiceClient
	streams      txmgrv1connect.TransactionServiceClient
	participants txmgrv1connect.ParticipantServiceClient
	timeouts     txmgrv1connect.TimeoutServiceClient
	inDoubt      txmgrv1connect.InDoubtServiceClient
	cluster      txmgrv1connect.ClusterServiceClient
	backup       txmgrv1connect.ClusterServiceClient // over HTTP/2
	tokens       txmgrv1connect.TokenServiceClient
	sessions     txmgrv1connect.SessionServiceClient
}

const (
	dialTimeout = 5 * time.Second
	// maxResponseBytes is the most bytes of one message from the server: a long List.
	maxResponseBytes = 64 << 20
)

// Dial opens a client with the defaults for addr, a URL or several separated by
// commas. It does not connect: the first call does. Errors are [txn.ErrInvalid].
func Dial(addr string) (*Client, error) {
	if addr == "" {
		_, err := parseAddress(addr)
		return nil, err
	}
	return Open(Config{Address: addr})
}

// Open opens a client. It does not connect: the first call does. Errors are
// [txn.ErrInvalid].
func Open(cfg Config) (*Client, error) {
	cfg, bases, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	secret, err := newSecret(cfg)
	if err != nil {
		return nil, err
	}
	if cfg.TLS, err = cfg.tls(); err != nil {
		return nil, err
	}
	secret.warnPlaintext(bases)
	conns := conntrack.New(dialTimeout, errClosed)
	c := &Client{cfg: cfg, conns: conns, unary: transport(cfg, conns, false), streams: transport(cfg, conns, true), secret: secret}
	c.ctx, c.close = context.WithCancel(context.Background())
	for _, base := range bases {
		c.endpoints = append(c.endpoints, c.newEndpoint(base))
	}
	c.pipeline = newPipeline(c)
	return c, nil
}

func transport(cfg Config, conns *conntrack.Tracker, http2 bool) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!http2)
	protocols.SetHTTP2(http2)
	protocols.SetUnencryptedHTTP2(http2)
	return &http.Transport{
		Protocols:             protocols,
		DialContext:           conns.Dial,
		TLSClientConfig:       cfg.TLS.Clone(), // net/http adds the protocols of ALPN
		TLSHandshakeTimeout:   dialTimeout,
		MaxIdleConnsPerHost:   256,
		IdleConnTimeout:       90 * time.Second,
		DisableCompression:    true,
		ExpectContinueTimeout: time.Second,
		HTTP2: &http.HTTP2Config{
			MaxReadFrameSize:              1 << 20,
			MaxReceiveBufferPerStream:     4 << 20,
			MaxReceiveBufferPerConnection: 8 << 20,
			// Detects a server that is gone without closing its connections.
			SendPingTimeout:  2 * time.Second,
			PingTimeout:      2 * time.Second,
			WriteByteTimeout: 15 * time.Second,
		},
	}
}

func (c *Client) newEndpoint(base string) *endpoint {
	options := []connect.ClientOption{
		connect.WithReadMaxBytes(maxResponseBytes),
		connect.WithAcceptCompression("gzip", nil, nil),
	}
	e := &endpoint{base: base}
	unary := &http.Client{Transport: &endpointTransport{singlewrite.Unary(c.unary), c, e, false}, CheckRedirect: refuseRedirects}
	streams := &http.Client{Transport: &endpointTransport{singlewrite.Streams(c.streams), c, e, true}, CheckRedirect: refuseRedirects}
	e.transactions = txmgrv1connect.NewTransactionServiceClient(unary, base, options...)
	e.streams = txmgrv1connect.NewTransactionServiceClient(streams, base, options...)
	e.participants = txmgrv1connect.NewParticipantServiceClient(unary, base, options...)
	e.timeouts = txmgrv1connect.NewTimeoutServiceClient(unary, base, options...)
	e.inDoubt = txmgrv1connect.NewInDoubtServiceClient(unary, base, options...)
	e.cluster = txmgrv1connect.NewClusterServiceClient(unary, base, options...)
	e.backup = txmgrv1connect.NewClusterServiceClient(streams, base, options...)
	e.tokens = txmgrv1connect.NewTokenServiceClient(unary, base, options...)
	e.sessions = txmgrv1connect.NewSessionServiceClient(unary, base, options...)
	return e
}

// refuseRedirects follows no redirect: a txmgr server sends none, and the request carries the
// token, wherever it is sent.
func refuseRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Close sends the completion reports that are waiting for another call, and then ends every
// running call and all connections. It stops the keep-alives of sessions:
// close sessions before, or they expire. Later calls fail with [txn.ErrUnavailable]. Close
// may be called again.
// A begin that no commit has waited for may be lost: a transaction with a single branch that was committed
// just before is then not in the log. Its data is.
func (c *Client) Close() error {
	c.pipeline.flush()
	c.heartbeatsMu.Lock()
	c.close()
	c.heartbeatsMu.Unlock()
	c.heartbeats.Wait()
	c.pipeline.close()
	c.conns.Close()
	c.unary.CloseIdleConnections()
	c.streams.CloseIdleConnections()
	return nil
}

// newError makes the error that every call returns.
func newError(op string, id txn.ID, err error) error {
	return &txn.Error{Op: op, ID: id, Err: err}
}

var errClosed = fmt.Errorf("%w: the client is closed", txn.ErrUnavailable)
