package client

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// DefaultAddress is the address of a server with the default configuration.
const DefaultAddress = "http://127.0.0.1:7460"

// Config configures a [Client]. Its zero value is valid.
type Config struct {
	// Address is the URL of a server, or of several, separated by commas. Any of them takes
	// any call. The client fails over to the next one, and prefers the leader of the cluster
	// if it is among them. Defaults to [DefaultAddress].
	Address string
	// RequestTimeout is the time limit of a call whose context has no deadline, for all tries
	// together. The call ends then, or up to 10 ms later. Defaults to 10s.
	RequestTimeout time.Duration
	// FanoutTimeout is the same for a call that makes the coordinator call participants:
	// Scan, Explain, Retry, Resolve, Doctor and TestParticipant. Such a call is retried
	// within RequestTimeout only, which covers a cluster without a leader. Defaults to 2m.
	FanoutTimeout time.Duration
	// Unary makes every call a request of its own, over HTTP/1.1. That is slower by an order
	// of magnitude and passes every proxy.
	Unary bool
	// FailFast makes a call fail as soon as no address can be connected to, until a server
	// has answered once: a wrong address then fails each call at once. Otherwise connections
	// are retried until the context ends, since a server may be about to start. [Client.Ping]
	// is the check for the start of a program.
	FailFast bool
	// TLS is used for https addresses. Defaults to the settings of the following files, or
	// else to the system's authorities.
	TLS *tls.Config
	// CACertFile is a PEM file with the authorities of servers. CertFile and KeyFile, both or
	// none, are the client's certificate and key; they are read again for every connection.
	// They exclude TLS.
	CACertFile, CertFile, KeyFile string
	// Token is the secret of this client's token. TokenFile is a file that contains it, and
	// is read again when it changes. At most one of the two may be set.
	Token, TokenFile string
	// Log receives warnings about these settings. Defaults to slog.Default().
	Log *slog.Logger
}

func (c Config) withDefaults() (Config, []string, error) {
	if c.Address == "" {
		c.Address = DefaultAddress
	}
	if c.RequestTimeout < 0 || c.FanoutTimeout < 0 {
		return c, nil, fmt.Errorf("%w: client: RequestTimeout is %v, FanoutTimeout %v; want 0 for the default, or more", txn.ErrInvalid, c.RequestTimeout, c.FanoutTimeout)
	}
	c.RequestTimeout = cmp.Or(c.RequestTimeout, 10*time.Second)
	c.FanoutTimeout = cmp.Or(c.FanoutTimeout, 2*time.Minute)
	c.Log = cmp.Or(c.Log, slog.Default())
	var bases []string
	for a := range strings.SplitSeq(c.Address, ",") {
		base, err := parseAddress(strings.TrimSpace(a))
		if err != nil {
			return c, nil, err
		}
		bases = append(bases, base)
	}
	return c, bases, nil
}

func parseAddress(a string) (string, error) {
	invalid := func(why string) error {
		return fmt.Errorf("%w: client: address %q: %s: want for example %s", txn.ErrInvalid, a, why, DefaultAddress)
	}
	if a == "" {
		return "", invalid("it is empty")
	}
	if !strings.Contains(a, "://") {
		return "", invalid("no scheme: write http:// before it")
	}
	u, err := url.Parse(a)
	if err != nil {
		return "", invalid("not a URL")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return "", invalid("scheme " + u.Scheme + " is not spoken here")
	case u.Hostname() == "":
		return "", invalid("no host")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return "", invalid("only scheme, host, port and path have a meaning")
	}
	return u.Scheme + "://" + u.Host + strings.TrimRight(u.Path, "/"), nil
}
