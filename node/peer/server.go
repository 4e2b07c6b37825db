package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/txmgr/txmgr/internal/certs"
	"github.com/txmgr/txmgr/internal/logsample"
	"github.com/txmgr/txmgr/txn"
)

const (
	dialTimeout      = 3 * time.Second // for a TCP connection
	handshakeTimeout = 5 * time.Second
	requestTimeout   = 30 * time.Second // for a request, from the handshake's end to the response

	maxConns              = 256 // admitted, at once
	maxConcurrentRequests = 32  // being served, at once
)

// keepAlive detects within half a minute that the other side is gone, when no message of it is
// awaited.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

// Config is the configuration for [Open]. Self has no default.
type Config struct {
	// Listen is the address to listen on, for example 10.0.0.1:7461; port 0 means any
	// free one. Required.
	Listen string
	// Advertise is the address at which other nodes reach this one. Defaults to Listen's
	// host and the port that was opened; required when Listen is all addresses.
	Advertise string
	// TLS names the files of certificate, key and authority. Nil: no TLS.
	TLS *certs.Files
	// Insecure allows to listen beyond loopback without TLS.
	Insecure bool
	// Self returns the node's current identity. Required.
	Self func() Identity
	// Admit may refuse a node that wants to connect; it is given the node's ID, Cluster
	// and Incarnation. For a removed node it returns [ErrRemoved]. Nodes of other clusters
	// are refused without it. Defaults to admitting all.
	Admit func(Identity) error
	// AdmitRaft may also refuse a node's raft streams. Defaults to admitting all.
	AdmitRaft func(Identity) error
	// Address returns the address of a node if raft's configuration has an older
	// one, otherwise "". Defaults to "" for all.
	Address func(id string) string
	// Handler serves requests other than hello, which Self answers. Nil: they are
	// refused as unavailable.
	Handler Handler
	// Logger receives what operators should see. Defaults to slog.Default().
	Logger *slog.Logger

	idleTimeout time.Duration // for tests; 0 means defaultIdleTimeout
}

// Server serves a node's port for other nodes.
type Server struct {
	conf         Config
	certs        *certs.PeerStore // nil: no TLS
	server       *tls.Config
	client       *tls.Config
	listener     net.Listener
	advertise    string
	sampler      *logsample.Sampler
	handshakes   handshakeLimiter
	streamLayer  *streamLayer
	requestSlots chan struct{} // capacity maxConcurrentRequests

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup // the goroutines of this package

	mu        sync.Mutex // guards all below
	closed    bool
	conns     map[*conn]bool // the admitted ones, accepted or dialed
	accepted  int            // how many of them the other side dialed
	transport Transport
}

// Open listens and serves from now on, except raft streams: they wait for
// [Server.Transport]. Errors are [txn.ErrInvalid] for a configuration that cannot work, and
// those of package net.
func Open(c Config) (*Server, error) {
	if c.Admit == nil {
		c.Admit = func(Identity) error { return nil }
	}
	if c.AdmitRaft == nil {
		c.AdmitRaft = func(Identity) error { return nil }
	}
	if c.Address == nil {
		c.Address = func(string) string { return "" }
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.idleTimeout == 0 {
		c.idleTimeout = defaultIdleTimeout
	}
	if c.Self == nil {
		return nil, fmt.Errorf("%w: a port for peers needs to know whose it is", txn.ErrInvalid)
	}
	p := &Server{
		conf: c, sampler: logsample.New(logsample.Minute, 1), conns: map[*conn]bool{}, requestSlots: make(chan struct{}, maxConcurrentRequests),
	}
	if c.TLS != nil {
		store, err := certs.OpenPeer(*c.TLS, c.Logger)
		if err != nil {
			return nil, fmt.Errorf("TLS between nodes: %w", err)
		}
		p.certs, p.server, p.client = store, store.Server(), store.Client()
	}
	if err := p.listen(); err != nil {
		return nil, err
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.streamLayer = &streamLayer{server: p, streams: make(chan net.Conn), done: make(chan struct{})}
	p.work.Go(p.accept)
	return p, nil
}

func (p *Server) listen() error {
	host, _, err := net.SplitHostPort(p.conf.Listen)
	if err != nil {
		return fmt.Errorf("%w: the address to listen on for peers: %w", txn.ErrInvalid, err)
	}
	addr, err := net.ResolveTCPAddr("tcp", p.conf.Listen)
	if err != nil {
		return fmt.Errorf("%w: the address to listen on for peers: %w", txn.ErrInvalid, err)
	}
	if p.conf.TLS == nil && !p.conf.Insecure && !addr.IP.IsLoopback() {
		return fmt.Errorf("%w: without certificates the port for peers listens on loopback only, and %s is not: any host that reaches it could take over the cluster; give it certificates", txn.ErrInvalid, p.conf.Listen)
	}
	if p.conf.Advertise == "" && (addr.IP == nil || addr.IP.IsUnspecified()) {
		return fmt.Errorf("%w: %s is no address at which other nodes reach this one: say which to advertise", txn.ErrInvalid, p.conf.Listen)
	}
	if p.conf.Advertise != "" {
		if h, port, err := net.SplitHostPort(p.conf.Advertise); err != nil || h == "" || port == "" || port == "0" || len(p.conf.Advertise) > maxText {
			return fmt.Errorf("%w: the address to advertise to peers is %q: want host:port", txn.ErrInvalid, p.conf.Advertise)
		}
	}
	lc := net.ListenConfig{KeepAliveConfig: keepAlive}
	l, err := lc.Listen(context.Background(), "tcp", addr.String())
	if err != nil {
		return fmt.Errorf("the port for peers: %w", err)
	}
	p.listener, p.advertise = l, p.conf.Advertise
	if p.advertise == "" {
		p.advertise = net.JoinHostPort(host, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	}
	return nil
}

// Addr is the address at which other nodes reach this one.
func (p *Server) Addr() string { return p.advertise }

// Reload reads the certificate files again, as on SIGHUP; without TLS it does nothing.
// They are also checked when connections are made, at most once a second.
func (p *Server) Reload() error {
	if p.certs == nil {
		return nil
	}
	return p.certs.Reload()
}

// CertificateExpires returns when the node's certificate expires; zero without TLS.
func (p *Server) CertificateExpires() time.Time {
	if p.certs == nil {
		return time.Time{}
	}
	return p.certs.Expires()
}

// Reauthorize checks all admitted nodes again, and closes the connections of those that it would
// refuse now. Call it when a node was removed, and when this node learns its cluster.
func (p *Server) Reauthorize() {
	self := p.conf.Self()
	for c, other := range p.identified() {
		if err := p.authorize(self, c.kind, other); err != nil {
			p.warn("recheck "+other.ID, "closed a connection with a node that is closed the connection of a node that is no longer admitted", "node", other.ID, "remote", c.RemoteAddr(), "error", err)
			_ = c.Close()
		}
	}
}

// Close ends everything: connections, requests, and raft's transport.
func (p *Server) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		p.work.Wait()
		return nil
	}
	p.closed = true
	transport := p.transport
	p.mu.Unlock()

	p.cancel()
	err := p.listener.Close()
	if transport != nil {
		err = errors.Join(err, transport.Close())
	}
	err = errors.Join(err, p.streamLayer.Close())
	p.handshakes.close()
	for _, c := range p.list(func(*conn) bool { return true }) {
		_ = c.Close()
	}
	p.work.Wait()
	return err
}

// authorize checks whether this node accepts a connection with another.
func (p *Server) authorize(self Identity, kind byte, other Identity) error {
	if kind == frameRaft && other.ID == self.ID {
		return fmt.Errorf("%w: %s: was a data directory copied? Only one of the two may run", ErrDuplicateID, self.ID)
	}
	if err := self.checkSameCluster(other); err != nil {
		return err
	}
	if kind == frameRaft {
		if err := p.conf.AdmitRaft(other); err != nil {
			return err
		}
	}
	return p.conf.Admit(other)
}
