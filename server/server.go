package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// Server serves a [Coordinator] over HTTP. Make it with [New].
type Server struct {
	cfg     Config
	c       Coordinator
	log     *slog.Logger
	handler http.Handler
	http    *http.Server
	metrics *metrics
	failing *quota // of log lines about failed calls

	// pipeable are the calls that may come through a Pipe.
	pipeable struct{ begin, enlist, commit, vote, delegate, rollback, extend, done, get, unknown *procedure }

	requests atomic.Int64 // calls that run now, not counting those below
	asks     atomic.Int64 // calls that ask participants and run now
	streams  atomic.Int64 // pipes, watches and waits that run now
	commands atomic.Int64 // commands of pipes that run now
	waiting  atomic.Int64 // goroutines of pipes that wait for a command

	// draining ends when the server begins to stop: new work is refused, and
	// what would wait long is told so.
	draining context.Context
	drain    context.CancelCauseFunc
	down     chan struct{} // closed when Shutdown is over
	once     sync.Once     // closes down
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
	s := &Server{cfg: cfg, c: c, log: cfg.Log, failing: newQuota(100), down: make(chan struct{})}
	s.draining, s.drain = context.WithCancelCause(context.Background())
	s.metrics = newMetrics(s)
	s.handler = s.routes()

	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	s.http = &http.Server{
		Handler:           s.handler,
		Protocols:         protocols,
		ReadHeaderTimeout: cfg.ReadTimeout,
		IdleTimeout:       cfg.IdleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 1024,
			// A batch of a Pipe in few frames, and room for the next one.
			MaxReadFrameSize:              1 << 20,
			MaxReceiveBufferPerStream:     4 << 20,
			MaxReceiveBufferPerConnection: 8 << 20,
			// A peer that is gone without a word must not hold its streams.
			SendPingTimeout:  15 * time.Second,
			PingTimeout:      15 * time.Second,
			WriteByteTimeout: 30 * time.Second,
		},
	}
	return s, nil
}

// Handler is everything that the server answers, for a listener of the caller's
// own. It needs HTTP/2 for Pipe and gRPC.
func (s *Server) Handler() http.Handler { return s.handler }

// Listen opens the configured address. Errors say what to do about them.
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

// Serve answers on ln until ctx ends or [Server.Shutdown] is called, and closes
// it. It lets running calls finish, for at most [Config.DrainTimeout]. A nil
// error means that it was asked to stop and every call had its answer. A server
// serves once.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	if err := s.cfg.checkAddress(ln.Addr()); err != nil {
		return errors.Join(err, ln.Close())
	}
	s.log.Info("serving", "address", ln.Addr().String())
	served := make(chan error, 1)
	go func() { served <- s.http.Serve(ln) }()

	select {
	case err := <-served:
		if !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("server: %w", err)
		}
		<-s.down
		return nil
	case <-ctx.Done():
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.DrainTimeout)
		defer cancel()
		err := s.Shutdown(limited)
		<-served
		return err
	}
}

// Shutdown refuses new work, waits for what is running, and closes every
// connection; at the end of ctx also those that are busy, and says so. It may be
// called again.
func (s *Server) Shutdown(ctx context.Context) error {
	defer s.once.Do(func() { close(s.down) })
	s.drain(errDraining)
	if err := s.http.Shutdown(ctx); err != nil {
		busy := s.requests.Load() + s.asks.Load() + s.streams.Load()
		return errors.Join(fmt.Errorf("server: %d calls did not end in time: %w", busy, err), s.http.Close())
	}
	return nil
}
