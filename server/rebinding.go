package server

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/txn"
)

// rejectDNSRebinding lets a call in that comes to a server without tokens on a loopback
// address only if it was meant for one. A page of another site can make the name of
// that site mean 127.0.0.1, and then a browser lets it talk to whatever listens there;
// the name is all that gives it away.
func (s *Server) rejectDNSRebinding(next http.Handler) http.Handler {
	if s.cfg.Auth || s.cfg.RootTokenFile != "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
		if at == nil || !at.IP.IsLoopback() || isLocal(r.Host) {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Connection", "close")
		_ = http.NewResponseController(w).SetReadDeadline(time.Now()) // the body is not waited for
		w.Header().Set(wire.HeaderCode, string(txn.CodeDenied))
		http.Error(w, "txmgr: this server has no tokens, and on a loopback address it answers only to localhost and to addresses, not to "+r.Host, http.StatusForbidden)
	})
}

// isLocal reports whether a Host names this machine without asking anybody.
func isLocal(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	_, err := netip.ParseAddr(host)
	return err == nil || host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost")
}
