package auth

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

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

// ConnectCode returns the code of an error of [Authenticator.Authorize] for connect and gRPC;
// false if the caller exceeds a rate limit, for which the error's own code holds.
func ConnectCode(err error) (connect.Code, bool) {
	if d := (*authError)(nil); errors.As(err, &d) {
		return d.code, true
	}
	return 0, false
}

// rejectUnknown counts a token that is not known. After a burst of them the address is told
// when to retry, and its connection is closed. Known tokens stay valid all the while: other
// clients may share the address.
func (a *Authenticator) rejectUnknown(r *http.Request) error {
	if after := a.authFailures.recordFailure(r.RemoteAddr, time.Now()); after > 0 {
		return &wire.RetryAfterError{After: after, Err: newAuthError("flood", connect.CodeResourceExhausted, "too many unknown tokens from this address; come back in %v", after)}
	}
	return newAuthError("unknown", connect.CodeUnauthenticated, "the token is not known: it was revoked, has expired, or is of another cluster")
}

var errRejectedByLeader = newAuthError("unknown", connect.CodeUnauthenticated, "this node does not know the token, and the node that leads does not admit it")

// RecordDenialByLeader counts and logs a call that the leader has rejected, with a token that
// this node does not know: only this node knows the client's address.
func (a *Authenticator) RecordDenialByLeader(r *http.Request, name string, b Principal) {
	_ = a.authFailures.recordFailure(r.RemoteAddr, time.Now())
	a.RecordDenial(r, name, b, errRejectedByLeader)
}

// RecordDenial counts and logs a call that was rejected.
func (a *Authenticator) RecordDenial(r *http.Request, name string, b Principal, err error) {
	reason := "rate"
	if d := (*authError)(nil); errors.As(err, &d) {
		reason = d.reason
	}
	a.denials.WithLabelValues(reason).Inc()
	ok, suppressed := a.denialLog.Allow("")
	if !ok {
		return
	}
	attrs := []slog.Attr{slog.String("method", name), slog.String("remote", r.RemoteAddr), slog.String("reason", reason)}
	if b.Name != "" {
		attrs = append(attrs, slog.String("token", b.Name), slog.String("token_id", b.ID))
	}
	if by := r.Header.Get(wire.HeaderForwarded); by != "" {
		attrs = append(attrs, slog.String("forwarded_by", by[:min(len(by), 64)]))
	}
	if suppressed > 0 {
		attrs = append(attrs, slog.Int("suppressed", suppressed))
	}
	a.log.LogAttrs(r.Context(), slog.LevelWarn, "denied", append(attrs, slog.String("error", err.Error()))...)
}

// RequireRole serves a page outside the API only to callers with the role.
func (a *Authenticator) RequireRole(path string, role admin.Role, page http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := a.Authorize(r, path, role, false)
		if err == nil {
			page.ServeHTTP(w, r)
			return
		}
		a.RecordDenial(r, path, b, err)
		status := http.StatusServiceUnavailable
		if d := (*authError)(nil); errors.As(err, &d) {
			status = map[connect.Code]int{
				connect.CodeUnauthenticated: http.StatusUnauthorized, connect.CodePermissionDenied: http.StatusForbidden,
				connect.CodeResourceExhausted: http.StatusTooManyRequests,
			}[d.code]
		}
		Challenge(w, r, err)
		w.Header().Set(wire.HeaderCode, string(txn.CodeOf(err)))
		http.Error(w, "txmgr: "+err.Error(), status)
	})
}

// Challenge sets the headers of the response to a rejected caller.
func Challenge(w http.ResponseWriter, r *http.Request, err error) {
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
