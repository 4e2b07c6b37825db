package server

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/time/rate"

	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/internal/logsample"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// principal is the authenticated caller of a call. Its zero value is any caller:
// authentication is off.
type principal struct {
	name   string // of the token
	id     string // of the token
	secret string
	// unverified: this node does not know the token. The leader may know it, because a
	// follower lags behind.
	unverified bool
	limiter    *rate.Limiter // nil: no limit of its own
}

// rootName is the name of the token in the root token file; systemActor is the actor in the
// audit log for what the cluster does by itself.
const (
	rootName    = "root"
	systemActor = "txmgr"
)

// maxSecret is the length of the longest secret that is checked, in bytes.
const maxSecret = 256

// auth authenticates the callers of a [Server] and checks their roles.
type auth struct {
	s            *Server
	enabled      bool // false: any caller may call everything
	mutualTLS    bool // clients need a certificate
	root         *rootToken
	tokenLimits  tokenLimiters
	authFailures authFailureLimiter
	denialLog    *logsample.Sampler
}

// authError says why a caller was rejected.
type authError struct {
	reason string // of the metric
	code   connect.Code
	err    error
}

func (d *authError) Error() string { return d.err.Error() }

func (d *authError) Unwrap() error { return d.err }

func newAuthError(reason string, code connect.Code, format string, args ...any) error {
	return &authError{reason, code, fmt.Errorf("%w: "+format, append([]any{txn.ErrDenied}, args...)...)}
}

// authorize returns the caller of the request, or an error if the caller does not have the
// role. forward says that the call is going to be forwarded: the leader checks again, and may
// know more tokens. An error is an [authError], or that of an exceeded rate limit.
func (a *auth) authorize(r *http.Request, name string, role admin.Role, forward bool) (principal, error) {
	if a.mutualTLS && (r.TLS == nil || len(r.TLS.PeerCertificates) == 0) {
		return principal{}, newAuthError("certificate", connect.CodeUnauthenticated, "%s needs a client certificate, of the authority that this server trusts", name)
	}
	if !a.enabled {
		return principal{}, nil
	}
	if role == 0 {
		return principal{}, newAuthError("role", connect.CodePermissionDenied, "%s admits no caller: the route has no role", name)
	}
	secret, ok := secretOf(r)
	if !ok {
		return principal{}, newAuthError("missing", connect.CodeUnauthenticated,
			"%s needs a token of role %v or more: send it as Authorization: Bearer, which txmgr does with --token-file or TXMGR_TOKEN", name, role)
	}
	t, ok := a.lookupToken(secret)
	if !ok && !forward {
		t, ok = a.awaitToken(r.Context(), secret)
	}
	switch {
	case !ok && forward:
		return principal{secret: secret, unverified: true}, nil
	case !ok:
		return principal{}, a.rejectUnknown(r)
	}
	b := principal{name: t.Name, id: t.ID, secret: secret, limiter: a.tokenLimits.limiterFor(t)}
	if t.Role < role {
		return b, newAuthError("role", connect.CodePermissionDenied, "%s needs a token of role %v or more; token %q has %v", name, role, t.Name, t.Role)
	}
	return b, b.allow(time.Now())
}

// rejectUnknown counts a token that is not known. After a burst of them the address is told
// when to retry, and its connection is closed. Known tokens stay valid all the while: other
// clients may share the address.
func (a *auth) rejectUnknown(r *http.Request) error {
	if after := a.authFailures.recordFailure(r.RemoteAddr, time.Now()); after > 0 {
		return &wire.RetryAfterError{After: after, Err: newAuthError("flood", connect.CodeResourceExhausted, "too many unknown tokens from this address; come back in %v", after)}
	}
	return newAuthError("unknown", connect.CodeUnauthenticated, "the token is not known: it was revoked, has expired, or is of another cluster")
}

// lookupToken finds the token of a secret.
func (a *auth) lookupToken(secret string) (admin.Token, bool) {
	if a.root.matches(secret, time.Now()) {
		return admin.Token{ID: rootName, Name: rootName, Role: admin.RoleAdmin}, true
	}
	return a.s.c.AuthenticateToken(secret)
}

// A new token is known on the followers within tokenPropagation. awaitToken polls every
// tokenPollInterval.
const (
	tokenPropagation  = 500 * time.Millisecond
	tokenPollInterval = 10 * time.Millisecond
)

// awaitToken finds the token of a secret on a follower, to which it may still be replicated.
// At most maxUnverified calls wait or are forwarded with an unknown token at once.
func (a *auth) awaitToken(ctx context.Context, secret string) (admin.Token, bool) {
	if api, here := a.s.c.Leader(); here || api == "" {
		return admin.Token{}, false
	}
	defer a.s.unverified.Add(-1)
	if a.s.unverified.Add(1) > maxUnverified {
		return admin.Token{}, false
	}
	ctx, cancel := context.WithTimeout(ctx, tokenPropagation)
	defer cancel()
	poll := time.NewTicker(tokenPollInterval)
	defer poll.Stop()
	for {
		select {
		case <-poll.C:
			if t, ok := a.lookupToken(secret); ok {
				return t, true
			}
		case <-ctx.Done():
			return admin.Token{}, false
		}
	}
}

// secretOf returns the secret that a request carries.
func secretOf(r *http.Request) (string, bool) {
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	secret = strings.TrimSpace(secret)
	return secret, strings.EqualFold(scheme, "Bearer") && secret != "" && len(secret) <= maxSecret
}

// allow counts one call against the token's rate limit.
func (b *principal) allow(now time.Time) error {
	if b.limiter == nil || b.limiter.AllowN(now, 1) {
		return nil
	}
	after := max(time.Duration(float64(time.Second)/float64(b.limiter.Limit())), 50*time.Millisecond)
	return &wire.RetryAfterError{After: after, Err: fmt.Errorf("%w: token %q may make %v calls a second at this node, and has", txn.ErrUnavailable, b.name, b.limiter.Limit())}
}

// recordDenial counts and logs a call that was rejected.
func (a *auth) recordDenial(r *http.Request, name string, b principal, err error) {
	reason := "rate"
	if d := (*authError)(nil); errors.As(err, &d) {
		reason = d.reason
	}
	a.s.metrics.authFailures.WithLabelValues(reason).Inc()
	ok, suppressed := a.denialLog.Allow("")
	if !ok {
		return
	}
	attrs := []slog.Attr{slog.String("method", name), slog.String("remote", r.RemoteAddr), slog.String("reason", reason)}
	if b.name != "" {
		attrs = append(attrs, slog.String("token", b.name), slog.String("token_id", b.id))
	}
	if by := r.Header.Get(wire.HeaderForwarded); by != "" {
		attrs = append(attrs, slog.String("forwarded_by", by[:min(len(by), 64)]))
	}
	if suppressed > 0 {
		attrs = append(attrs, slog.Int("suppressed", suppressed))
	}
	a.s.log.LogAttrs(r.Context(), slog.LevelWarn, "denied", append(attrs, slog.String("error", err.Error()))...)
}

// requireRole serves a page outside the API only to callers with the path's role.
func (a *auth) requireRole(path string, page http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := a.authorize(r, path, roles[path], false)
		if err == nil {
			page.ServeHTTP(w, r)
			return
		}
		a.recordDenial(r, path, b, err)
		status := http.StatusServiceUnavailable
		if d := (*authError)(nil); errors.As(err, &d) {
			status = map[connect.Code]int{
				connect.CodeUnauthenticated: http.StatusUnauthorized, connect.CodePermissionDenied: http.StatusForbidden,
				connect.CodeResourceExhausted: http.StatusTooManyRequests,
			}[d.code]
		}
		challenge(w, r, err)
		w.Header().Set(wire.HeaderCode, string(txn.CodeOf(err)))
		http.Error(w, "txmgr: "+err.Error(), status)
	})
}

// challenge sets the headers of the response to a rejected caller.
func challenge(w http.ResponseWriter, r *http.Request, err error) {
	d := (*authError)(nil)
	if !errors.As(err, &d) {
		return
	}
	switch d.code {
	case connect.CodeUnauthenticated:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case connect.CodeResourceExhausted:
		// The client has to reconnect to retry; but the connection of a node carries other
		// clients' calls too.
		if r.Header.Get(wire.HeaderForwarded) == "" {
			w.Header().Set("Connection", "close")
		}
	}
}

// equalSecrets compares secrets in a time that does not depend on their contents.
func equalSecrets(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
