package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/txmgr/txmgr/internal/asynclog"
	"github.com/txmgr/txmgr/internal/logsample"
	"github.com/txmgr/txmgr/server/auth"
	"github.com/txmgr/txmgr/server/forward"
	"github.com/txmgr/txmgr/server/limits"
	"github.com/txmgr/txmgr/server/pipeline"
	"github.com/txmgr/txmgr/txn"
)

// Server serves a [Coordinator] over HTTP. Make it with [New].
type Server struct {
	cfg         Config
	c           Coordinator
	log         *slog.Logger
	http        *http.Server
	apiHandler  *apiHandler
	metrics     *metrics
	observer    *observer
	auth        *auth.Authenticator
	forwarder   *forward.Forwarder
	pipelines   *pipeline.Runner
	running     runningCalls
	lists       limits.Lists // that are being built or sent
	connections *limits.Connections
	draining    draining
}

// draining is the end of a server.
type draining struct {
	ctx   context.Context         // ends when the server begins to stop: new work is refused, and long calls are ended
	begin context.CancelCauseFunc // ends ctx
	done  chan struct{}           // closed when Shutdown is complete
	once  sync.Once               // closes done
}

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
	s := &Server{cfg: cfg, c: c, log: cfg.Log, observer: &observer{cfg.Log, logsample.New(100, 100)}}
	s.connections = limits.NewConnections(cfg.MaxConnections, cfg.MaxConnectionsPerAddress)
	s.draining.ctx, s.draining.begin = context.WithCancelCause(context.Background())
	s.draining.done = make(chan struct{})
	s.pipelines = pipeline.New(pipeline.Config{CallTimeout: cfg.CallTimeout, MaxCommands: cfg.MaxCommands, MaxPipelineCommands: cfg.MaxPipelineCommands})
	s.auth, err = auth.New(auth.Config{
		Required: cfg.requiresToken(), MutualTLS: cfg.TLS.ClientCAFile != "", RootTokenFile: cfg.RootTokenFile, Log: s.log,
	}, c)
	if err != nil {
		return nil, err
	}
	own, others, err := openTLS(cfg)
	if err != nil {
		return nil, err
	}
	config, err := serverTLS(own)
	if err != nil {
		return nil, err
	}
	s.forwarder = forward.New(forward.Config{Certificates: others, IdleTimeout: cfg.IdleTimeout, Draining: errDraining, Log: s.log}, c.Admin())
	s.metrics = newMetrics(s, own)

	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(config != nil)
	protocols.SetUnencryptedHTTP2(config == nil)
	s.http = &http.Server{
		Handler:           s.routes(),
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
func (s *Server) Handler() http.Handler { return s.http.Handler }

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
	defer s.forwarder.Close()
	s.log.Info("serving", "address", ln.Addr().String(), "tls", s.cfg.TLS.enabled(), "tokens", s.cfg.requiresToken())
	ln = s.connections.Limit(ln)
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
		<-s.draining.done
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
	defer s.draining.once.Do(func() { close(s.draining.done) })
	s.draining.begin(errDraining)
	if err := s.http.Shutdown(ctx); err != nil {
		busy := s.running.all()
		if busy == 0 {
			s.log.Warn("closed connections that were still open when the time for running calls was over; no call was running", "error", err)
			return s.http.Close()
		}
		return errors.Join(fmt.Errorf("server: %d calls did not end in time: %w", busy, err), s.http.Close())
	}
	return nil
}
