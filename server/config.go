package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/txmgr/txmgr/internal/asynclog"
	"github.com/txmgr/txmgr/server/auth"
	"github.com/txmgr/txmgr/txn"
)

// Config configures a [Server]. Its zero value is valid.
type Config struct {
	// Listen is the address for [Server.Listen]. Defaults to 127.0.0.1:7460.
	Listen string
	// TLS are the files of the server's certificate. Zero: no TLS.
	TLS TLS
	// Auth requires callers to present a token. Without it, and without RootTokenFile, any
	// client that reaches the server may decide every transaction.
	Auth bool
	// RootTokenFile is the path of a file that contains one word of 16 to 256 characters: the
	// secret of a token with the role admin, which only this node knows. The file is read
	// again when it changes.
	RootTokenFile string
	// Insecure allows addresses beyond loopback without TLS and tokens.
	Insecure bool
	// Log receives requests and failures, through a queue: no call waits for it. Defaults to
	// [slog.Default].
	Log *slog.Logger

	// CallTimeout is the time limit of a call that has no deadline. Defaults to 10s.
	CallTimeout time.Duration
	// MaxCallTimeout limits the deadlines that clients send, and the length of one Wait.
	// Defaults to 60s.
	MaxCallTimeout time.Duration

	// FanoutTimeout is the default and the maximum time limit of a call that fans out to
	// participants: Scan, Explain, Retry, Resolve, Doctor and Test. Defaults to 2m.
	FanoutTimeout time.Duration

	// MaxBody is the most bytes of one message. Defaults to 1 MiB.
	MaxBody int
	// MaxRequests is the most concurrent calls, not counting those that wait and those that
	// fan out to participants. Calls that only read, for which the role reader is enough,
	// have a separate limit of the same size, here and below. Defaults to 1,024.
	MaxRequests int
	// MaxFanoutCalls is the most concurrent calls that fan out to participants. Defaults to
	// 64.
	MaxFanoutCalls int
	// MaxStreams is the most concurrent Pipes, and separately the most Watches and Waits.
	// Defaults to 1,024.
	MaxStreams int
	// MaxCommands is the most commands in flight in all Pipes. Defaults to 16,384.
	MaxCommands int
	// MaxPipelineCommands is the most commands in flight in one Pipe; the Pipe is not
	// read while it is reached. Defaults to 4,096.
	MaxPipelineCommands int

	// MaxConnections is the most open connections. Defaults to 10,000.
	MaxConnections int
	// MaxConnectionsPerAddress is the most open connections from one IPv4 address, or from
	// one IPv6 /64. Defaults to half of MaxConnections.
	MaxConnectionsPerAddress int

	// ReadTimeout is the time that a client has to send the headers of a call, and again its
	// body. Defaults to 10s.
	ReadTimeout time.Duration
	// IdleTimeout is how long an unused connection stays open. Defaults to 2m.
	IdleTimeout time.Duration
	// DrainTimeout is how long [Server.Serve] waits for calls after its context
	// has ended. Defaults to 10s.
	DrainTimeout time.Duration
}

// maxHeader is the most bytes of the headers of one request. Calls of this API need a few
// hundred.
const maxHeader = 32 << 10

// TLS names PEM files. Changed files are read again.
type TLS struct {
	// CertFile is the server's certificate, which the intermediate certificates may follow.
	// KeyFile is its key.
	CertFile, KeyFile string
	// ClientCAFile contains the authorities of clients. If it is set, clients need a
	// certificate that one of them signed, in addition to a token; health needs none.
	ClientCAFile string
	// CAFile contains the authorities of the other nodes' servers, to which calls are
	// forwarded. Defaults to ClientCAFile, or else the system's authorities.
	CAFile string
}

// enabled reports whether there is TLS.
func (t TLS) enabled() bool { return t != TLS{} }

// requiresToken reports whether clients need a token.
func (c Config) requiresToken() bool { return c.Auth || c.RootTokenFile != "" }

// Check returns the error that [New] would return for c. Errors are [txn.ErrInvalid].
func (c Config) Check() error {
	c, err := c.withDefaults()
	if err != nil {
		return err
	}
	if c.RootTokenFile != "" {
		err = auth.CheckRootToken(c.RootTokenFile)
	}
	own, _, tlsErr := openTLS(c)
	if tlsErr == nil {
		_, tlsErr = serverTLS(own)
	}
	return errors.Join(err, tlsErr)
}

func (c Config) withDefaults() (Config, error) {
	if c.Listen == "" {
		c.Listen = "127.0.0.1:7460"
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	c.Log = asynclog.Wrap(c.Log)
	var errs []error
	for _, d := range []struct {
		name  string
		value *time.Duration
		def   time.Duration
	}{
		{"CallTimeout", &c.CallTimeout, 10 * time.Second},
		{"MaxCallTimeout", &c.MaxCallTimeout, time.Minute},
		{"FanoutTimeout", &c.FanoutTimeout, 2 * time.Minute},
		{"ReadTimeout", &c.ReadTimeout, 10 * time.Second},
		{"IdleTimeout", &c.IdleTimeout, 2 * time.Minute},
		{"DrainTimeout", &c.DrainTimeout, 10 * time.Second},
	} {
		errs = append(errs, orDefault(d.name, d.value, d.def))
	}
	for _, n := range []struct {
		name  string
		value *int
		def   int
	}{
		{"MaxBody", &c.MaxBody, 1 << 20},
		{"MaxRequests", &c.MaxRequests, 1024},
		{"MaxFanoutCalls", &c.MaxFanoutCalls, 64},
		{"MaxStreams", &c.MaxStreams, 1024},
		{"MaxCommands", &c.MaxCommands, 16384},
		{"MaxPipelineCommands", &c.MaxPipelineCommands, 4096},
		{"MaxConnections", &c.MaxConnections, 10_000},
	} {
		errs = append(errs, orDefault(n.name, n.value, n.def))
	}
	errs = append(errs, orDefault("MaxConnectionsPerAddress", &c.MaxConnectionsPerAddress, (c.MaxConnections+1)/2))
	if c.CallTimeout > c.MaxCallTimeout {
		c.CallTimeout = c.MaxCallTimeout
	}
	if c.TLS.enabled() && (c.TLS.CertFile == "" || c.TLS.KeyFile == "") {
		errs = append(errs, fmt.Errorf("%w: server: TLS needs both a certificate and its key", txn.ErrInvalid))
	}
	if c.TLS.CAFile == "" {
		c.TLS.CAFile = c.TLS.ClientCAFile
	}
	return c, errors.Join(errs...)
}

func orDefault[T int | time.Duration](name string, value *T, def T) error {
	if *value < 0 {
		return fmt.Errorf("%w: server: %s is %v; want 0 for the default, or more", txn.ErrInvalid, name, *value)
	}
	if *value == 0 {
		*value = def
	}
	return nil
}

// checkAddress rejects an address on which an unprotected server would be reachable from a
// network.
func (c Config) checkAddress(a net.Addr) error {
	if c.Insecure {
		return nil
	}
	tcp, ok := a.(*net.TCPAddr)
	if !ok || tcp.IP.IsLoopback() {
		return nil
	}
	var missing []string
	if !c.TLS.enabled() {
		missing = append(missing, "TLS (a certificate and its key)")
	}
	if !c.requiresToken() {
		missing = append(missing, "tokens (a root token file)")
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%w: server: %v can be reached from other machines, and this server has no %s: "+
		"give it, listen on 127.0.0.1, or set Insecure if the network itself is protected", txn.ErrDenied, a, strings.Join(missing, " and no "))
}
