package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/google/renameio/v2"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/node"
	"github.com/txmgr/txmgr/server"
	"github.com/txmgr/txmgr/txn"
)

// openTimeout bounds the start of a coordinator: reading the log.
const openTimeout = 10 * time.Minute

// serve runs a coordinator until ctx ends. It listens on its port before it reads its log, so that
// a port in use is reported at once.
func serve(ctx context.Context, a *cli.App, o serverOptions, log *slog.Logger, ready func(address string, n *node.Node) error) (err error) {
	signal.Ignore(syscall.SIGPIPE) // a closed pipe must not stop the coordinator
	closing := new(closers)
	defer func() { err = closing.close(err) }()

	// The server needs its coordinator when it is created, and the port has to be opened before.
	listener, err := o.openListener()
	if err != nil {
		return err
	}
	closing.add("the port", listener.Close)
	opening, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	address := o.scheme() + listener.Addr().String()
	conf, err := o.nodeConfig(log)
	if err != nil {
		return err
	}
	if conf.Cluster, err = o.cluster(listener.Addr(), o.scheme(), o.insecure); err != nil {
		return err
	}
	n, err := node.Open(opening, conf)
	if err != nil {
		f := dataDirFailure(o.dataDir, err)
		if f.Code == txn.CodeUsage && conf.Cluster != nil && conf.Cluster.CertFile == "" && !conf.Cluster.Insecure && !isLoopback(conf.Cluster.Listen) {
			f.Hint = "if it needs certificates: txmgr config init makes some"
		}
		return f
	}
	closing.add("the coordinator", n.Close)
	s, err := server.New(o.serverConfig(log), n)
	if err != nil {
		return err
	}
	if err := ready(address, n); err != nil {
		return err
	}
	if o.addressFile != "" {
		if err := writeAddress(o.addressFile, address); err != nil {
			return err
		}
		closing.add("the address file", removeFunc(o.addressFile))
	}
	return serveUntil(ctx, s, n, listener, log)
}

// writeAddress writes the file atomically: a reader that waits for the file may read it as soon as
// it exists.
func writeAddress(path, address string) error {
	if err := renameio.WriteFile(path, []byte(address+"\n"), 0o644); err != nil {
		return fmt.Errorf("write the address file: %w", err)
	}
	return nil
}

// checkExposed refuses to serve other machines without TLS and authentication, unless --insecure
// allows it.
func (o *serverOptions) checkExposed(a net.Addr) error {
	tls, auth := o.tlsCert != "", o.auth || o.rootTokenFile != ""
	if tcp, ok := a.(*net.TCPAddr); ok && (tcp.IP.IsLoopback() || o.insecure || tls && auth) {
		return nil
	}
	lacks, next := "neither TLS nor authentication", "--tls-cert, --tls-key and --root-token-file, which txmgr config init makes"
	switch {
	case tls:
		lacks, next = "no authentication", "--root-token-file or --auth"
	case auth:
		lacks, next = "no TLS", "--tls-cert and --tls-key"
	}
	return output.Usage(next+"; or listen on 127.0.0.1; or --insecure, if the network itself is protected",
		"%s can be reached from other machines, and this server has %s", cmp.Or(o.listen, a.String()), lacks)
}

// openListener listens on the port of a server that is not created yet.
func (o *serverOptions) openListener() (net.Listener, error) {
	l, err := net.Listen("tcp", o.listen)
	if err == nil {
		if exposed := o.checkExposed(l.Addr()); exposed != nil {
			return nil, errors.Join(exposed, l.Close())
		}
		return l, nil
	}
	f := &output.Failure{Code: txn.CodeError, What: "cannot listen on " + o.listen, Cause: err.Error(), Err: err}
	var op *net.OpError
	if errors.As(err, &op) {
		f.Cause = op.Err.Error()
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		f.Hint = "another txmgr may be running there; --listen 127.0.0.1:0 uses any free port"
	}
	return nil, f
}

// A server that stops waits until calls can be forwarded to the next leader, at most for
// transferTimeout; and at most for stepDownTimeout until its raft reports that it no longer leads.
const (
	transferTimeout = 2 * time.Second
	stepDownTimeout = 200 * time.Millisecond
)

// serveUntil serves until ctx ends. It then transfers leadership before it drains, so that calls
// that arrive meanwhile are forwarded to the new leader.
func serveUntil(ctx context.Context, s *server.Server, n *node.Node, l net.Listener, log *slog.Logger) error {
	serving, drain := context.WithCancel(context.WithoutCancel(ctx))
	defer drain()
	left := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(left)
		defer drain()
		log.Info("stopping: a second signal ends it at once")
		transferLeadership(serving, n)
	})
	err := s.Serve(serving, l)
	drain()
	if !stop() {
		<-left
	}
	return err
}

// isLoopback reports whether only this machine reaches an address to listen on.
func isLoopback(address string) bool {
	a, err := net.ResolveTCPAddr("tcp", address)
	return err == nil && a.IP.IsLoopback()
}

// transferLeadership transfers leadership to another node, if one is able to lead, and waits until
// this node knows the new leader. It ends with ctx.
func transferLeadership(ctx context.Context, n *node.Node) {
	if _, here := n.Leader(); !here {
		return
	}
	if s, _ := n.Admin().Status(ctx); len(s.Members) < 2 { // it has the members even if it cannot read the log
		return
	}
	n.StepDown()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for began := time.Now(); ; {
		limit := transferTimeout
		switch api, here := n.Leader(); {
		case here:
			limit = stepDownTimeout
		case api != "":
			return
		}
		if time.Since(began) > limit {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

// dataDirFailure names the directory. The exit code is 1 for all causes, except that a setting that
// contradicts the directory is a usage error.
func dataDirFailure(dir string, err error) *output.Failure {
	f := &output.Failure{Code: txn.CodeError, What: "cannot start the coordinator in " + dir, Cause: err.Error(), Err: err}
	switch {
	case errors.Is(err, txn.ErrInvalid):
		f.Code = txn.CodeUsage
	case errors.Is(err, context.Canceled):
		f.Code = output.CodeInterrupted
	}
	return f
}

// handleHangups logs that certificates are reloaded without a signal, and keeps a SIGHUP that was
// sent to reload them from ending the server.
func handleHangups(log *slog.Logger) (stop func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for range c {
			log.Info("SIGHUP has no effect: certificates and the root token are read again whenever they change")
		}
	}()
	return func() {
		signal.Stop(c)
		close(c)
		<-over
	}
}
