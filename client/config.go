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

// DefaultAddress is where a server listens that was not told otherwise.
const DefaultAddress = "http://127.0.0.1:7460"

// Config is valid when zero.
type Config struct {
	// Address is the URL of a server, or of several, separated by commas: any of
	// them takes any call, the next one is used when one fails, and the leader of
	// the cluster when it is among them. Defaults to [DefaultAddress].
	Address string
	// RequestTimeout is the time of a call whose context has no deadline, all
	// tries together. Defaults to 10s.
	RequestTimeout time.Duration
	// FanoutTimeout is the same for a call that makes the coordinator ask
	// participants: Scan, Explain, Retry, Resolve, Doctor and TestParticipant. It is
	// tried again within RequestTimeout alone: that is for a cluster without a leader.
	// Defaults to 2m.
	FanoutTimeout time.Duration
	// Unary makes every call a request of its own, over HTTP/1.1. It is slower
	// by an order of magnitude and passes every proxy.
	Unary bool
	// FailFast makes a call an error as soon as no address can be connected to, as
	// long as no server has ever answered: a wrong address then fails each call at once.
	// Otherwise connections are tried until the context ends, since a server may be
	// about to start. [Client.Ping] is the check for the start of a program.
	FailFast bool
	// TLS is used for https addresses. Defaults to the system's certificates, or to
	// what the following files say.
	TLS *tls.Config
	// CACertFile is a PEM file with the certificates that servers are trusted by.
	// CertFile and KeyFile, both or none, are what this client shows of itself;
	// they are read again for every connection. Not together with TLS.
	CACertFile, CertFile, KeyFile string
	// Token is the secret of the token that admits this client. TokenFile is the
	// file that holds it, read again when it changes; at most one of the two.
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
