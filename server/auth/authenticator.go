package auth

import (
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/txmgr/txmgr/internal/logsample"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/txmgr/txmgr/txn/admin"
)

// Authenticator authenticates the callers of a server and checks their roles. Make it with
// [New].
type Authenticator struct {
	c            Coordinator
	required     bool // false: any caller may call everything
	mutualTLS    bool // clients need a certificate
	log          *slog.Logger
	root         *rootToken
	tokenLimits  tokenLimiters
	authFailures authFailureLimiter
	unverified   atomic.Int64 // calls that hold a place of AcquireUnverified
	denials      *prometheus.CounterVec
	denialLog    *logsample.Sampler
}

// Coordinator knows the tokens of the cluster.
type Coordinator interface {
	// AuthenticateToken returns the token of a secret, as far as this node knows; false if it
	// is unknown or has expired.
	AuthenticateToken(secret string) (admin.Token, bool)
	// Leader returns the URL of the leader's API, empty if it is not known, or that this node
	// leads.
	Leader() (api string, here bool)
}

// Config says what callers need. With its zero value every caller is admitted.
type Config struct {
	// Required: callers need a token.
	Required bool
	// MutualTLS: callers need a certificate.
	MutualTLS bool
	// RootTokenFile is the path of the file with the root token. Defaults to none.
	RootTokenFile string
	// Log receives lines about rejected calls, a limited number per second.
	Log *slog.Logger
}

// New makes an authenticator. Errors are [txn.ErrInvalid].
func New(cfg Config, c Coordinator) (*Authenticator, error) {
	a := &Authenticator{c: c, required: cfg.Required, mutualTLS: cfg.MutualTLS, log: cfg.Log, denialLog: logsample.New(10, 10)}
	if cfg.RootTokenFile != "" {
		var err error
		if a.root, err = openRootToken(cfg.RootTokenFile, cfg.Log); err != nil {
			return nil, err
		}
	}
	a.denials = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "txmgr_auth_failures_total",
		Help: "Calls that were rejected by authentication or authorization: missing, unknown, role, rate, flood or certificate.",
	}, []string{"reason"})
	for _, reason := range []string{"missing", "unknown", "role", "rate", "flood", "certificate"} {
		a.denials.WithLabelValues(reason)
	}
	return a, nil
}

// Metrics returns the metrics about rejected calls.
func (a *Authenticator) Metrics() prometheus.Collector { return a.denials }

// Authorize returns the caller of the request, or an error if the caller does not have the
// role. forward says that the call is going to be forwarded: the leader checks again, and may
// know more tokens. An error has a [ConnectCode], or is that of an exceeded rate limit.
func (a *Authenticator) Authorize(r *http.Request, name string, role admin.Role, forward bool) (Principal, error) {
	if a.mutualTLS && (r.TLS == nil || len(r.TLS.PeerCertificates) == 0) {
		return Principal{}, newAuthError("certificate", connect.CodeUnauthenticated, "%s needs a client certificate, of the authority that this server trusts", name)
	}
	if !a.required {
		return Principal{}, nil
	}
	if role == 0 {
		return Principal{}, newAuthError("role", connect.CodePermissionDenied, "%s admits no caller: the route has no role", name)
	}
	secret, ok := secretOf(r)
	if !ok {
		return Principal{}, newAuthError("missing", connect.CodeUnauthenticated,
			"%s needs a token of role %v or more: send it as Authorization: Bearer", name, role)
	}
	t, ok := a.lookupToken(secret)
	if !ok && !forward {
		t, ok = a.awaitToken(r.Context(), secret)
	}
	switch {
	case !ok && forward:
		return Principal{Secret: secret, Unverified: true}, nil
	case !ok:
		return Principal{}, a.rejectUnknown(r)
	}
	b := Principal{Name: t.Name, ID: t.ID, Secret: secret, limiter: a.tokenLimits.limiterFor(t)}
	if t.Role < role {
		return b, newAuthError("role", connect.CodePermissionDenied, "%s needs a token of role %v or more; token %q has %v", name, role, t.Name, t.Role)
	}
	return b, b.Allow(time.Now())
}
