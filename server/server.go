package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/txmgr/txmgr/internal/asynclog"
	"github.com/txmgr/txmgr/internal/certs"
	"github.com/txmgr/txmgr/internal/logsample"
	"github.com/txmgr/txmgr/txn"
)

// Server serves a [Coordinator] over HTTP. Make it with [New].
type Server struct {
	cfg            Config
	c              Coordinator
	asyncCommitter asyncCommitter // the same coordinator; nil if it is none
	log            *slog.Logger
	handler        http.Handler
	http           *http.Server
	metrics        *metrics
	failureLog     *logsample.Sampler // of log lines about failed calls
	apiHandler     *apiHandler
	auth           auth
	callWatcher    callWatcher
	transports     *leaderTransports
	certs          *certs.Store           // of the server; nil without TLS
	name           atomic.Pointer[string] // of the node, once it is known

	// pipelineMethods are the calls that may come through a Pipe.
	pipelineMethods struct{ begin, enlist, commit, vote, delegate, rollback, extend, done, get, unknown *rpcMethod }

	// reads are the running calls for which the role reader is enough, and writes all others.
	writes, reads callCounts

	commands    atomic.Int64 // running commands of Pipes
	idleWorkers atomic.Int64 // idle goroutines of Pipes

	unverified    atomic.Int64 // calls with tokens that this node does not know
	listUsed      atomic.Int64 // transactions in lists that are being built or sent
	openConns     atomic.Int64 // connections
	rejectedConns atomic.Int64 // connections that were closed at once, above the limit

	// draining ends when the server begins to stop: new work is refused, and long calls are
	// ended.
	draining     context.Context
	drain        context.CancelCauseFunc
	shutdownDone chan struct{} // closed when Shutdown is complete
	once         sync.Once     // closes down
}

// callCounts counts running calls by class.
type callCounts struct {
	requests atomic.Int64 // not counting those below
	fanouts  atomic.Int64 // that fan out to participants
	streams  atomic.Int64 // pipes, watches and waits
}

func (l *callCounts) all() int64 { return l.requests.Load() + l.fanouts.Load() + l.streams.Load() }

func (s *Server) streams() int64 { return s.writes.streams.Load() + s.reads.streams.Load() }

var errDraining = fmt.Errorf("%w: this server is shutting down", txn.ErrUnavailable)

// New makes a server. Errors are [txn.ErrInvalid].
func New(cfg Config, c Coordinator) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if c == nil {
		return nil, fmt.Errorf("%w: server: no coordinator", txn.ErrInvalid)
	}
	s := &Server{cfg: cfg, c: c, log: cfg.Log, failureLog: logsample.New(100, 100), shutdownDone: make(chan struct{})}
	s.draining, s.drain = context.WithCancelCause(context.Background())
	s.asyncCommitter, _ = c.(asyncCommitter)
	s.metrics = newMetrics(s)
	s.callWatcher = callWatcher{s: s, calls: make(map[*watchedCall]struct{})}
	s.auth = auth{s: s, enabled: cfg.requiresToken(), mutualTLS: cfg.TLS.ClientCAFile != "", denialLog: logsample.New(10, 10)}
	if cfg.RootTokenFile != "" {
		if s.auth.root, err = openRootToken(cfg.RootTokenFile, s.log); err != nil {
			return nil, err
		}
	}
	own, others, err := openTLS(cfg)
	if err != nil {
		return nil, err
	}
	config, err := serverTLS(own)
	if err != nil {
		return nil, err
	}
	s.certs, s.transports = own, newLeaderTransports(cfg, others)
	s.handler = s.routes()

	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(config != nil)
	protocols.SetUnencryptedHTTP2(config == nil)
	s.http = &http.Server{
		Handler:           s.handler,
		Protocols:         protocols,
		TLSConfig:         config,
		ReadHeaderTimeout: cfg.ReadTimeout,
		IdleTimeout:       cfg.IdleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 1024,
			// Room for one batch of a Pipe in few frames, and for the next one.
			MaxReadFrameSize:          1 << 20,
			MaxReceiveBufferPerStream: 4 << 20,
			// A node forwards the Pipes of many clients over one connection; some of them may
			// wait to be read.
			MaxReceiveBufferPerConnection: 32 << 20,
			// A peer that is gone without closing its connection must not hold its streams.
			SendPingTimeout:  15 * time.Second,
			PingTimeout:      15 * time.Second,
			WriteByteTimeout: 30 * time.Second,
		},
	}
	return s, nil
}

// Handler returns the handler of all pages and calls, for a listener of the program's own. It
// needs HTTP/2 for Pipe and gRPC.
func (s *Server) Handler() http.Handler { return s.handler }

// Listen listens on the configured address. Its errors say what to do.
func (s *Server) Listen() (net.Listener, error) {
	ln, err := net.Listen("tcp", s.cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("server: %w: is another txmgr running there? choose another address", err)
	}
	if err := s.cfg.checkAddress(ln.Addr()); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return ln, nil
}

// Serve serves ln until ctx ends or [Server.Shutdown] is called, and closes it. It lets
// running calls finish, for at most [Config.DrainTimeout]. A nil error means that it was
// asked to stop and every call got its response. A server serves once.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	if err := s.cfg.checkAddress(ln.Addr()); err != nil {
		return errors.Join(err, ln.Close())
	}
	defer asynclog.Flush(s.log)
	defer s.transports.close()
	s.log.Info("serving", "address", ln.Addr().String(), "tls", s.cfg.TLS.enabled(), "tokens", s.cfg.requiresToken())
	ln = &limitListener{
		Listener: ln, open: &s.openConns, rejected: &s.rejectedConns,
		maxOpen: int64(s.cfg.MaxConnections), perAddress: s.cfg.MaxConnectionsPerAddress, openByPrefix: make(map[netip.Prefix]int),
	}
	served := make(chan error, 1)
	go func() {
		if s.http.TLSConfig != nil {
			served <- s.http.ServeTLS(ln, "", "")
			return
		}
		served <- s.http.Serve(ln)
	}()

	select {
	case err := <-served:
		if !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("server: %w", err)
		}
		<-s.shutdownDone
		return nil
	case <-ctx.Done():
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.DrainTimeout)
		defer cancel()
		err := s.Shutdown(limited)
		<-served
		return err
	}
}

// Shutdown refuses new work, waits for running calls, and closes every connection; at the end
// of ctx also busy ones. The error says how many calls were cut off. A connection without a
// running call, such as one whose client has sent half a request, is closed without an error.
// Shutdown may be called again.
func (s *Server) Shutdown(ctx context.Context) error {
	defer s.once.Do(func() { close(s.shutdownDone) })
	s.drain(errDraining)
	if err := s.http.Shutdown(ctx); err != nil {
		busy := s.writes.all() + s.reads.all()
		if busy == 0 {
			s.log.Warn("closed connections that were still open when the time for running calls was over; no call was running", "error", err)
			return s.http.Close()
		}
		return errors.Join(fmt.Errorf("server: %d calls did not end in time: %w", busy, err), s.http.Close())
	}
	return nil
}

// nodeName is the name of this node, for the other nodes.
func (s *Server) nodeName() string {
	if name := s.name.Load(); name != nil {
		return *name
	}
	ctx, cancel := context.WithTimeout(txn.AllowStale(context.Background()), time.Second)
	defer cancel()
	status, err := s.c.Status(ctx)
	if err != nil || status.Node == "" {
		return "a node"
	}
	s.name.Store(&status.Node)
	return status.Node
}
