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

// rejectDNSRebinding rejects calls to a server without tokens on a loopback address unless
// their Host names a local address. A web page of another site can make the name of that site
// resolve to 127.0.0.1, and the browser then lets it call any server there; only the Host
// header reveals this.
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
		_ = http.NewResponseController(w).SetReadDeadline(time.Now()) // do not wait for the body
		w.Header().Set(wire.HeaderCode, string(txn.CodeDenied))
		http.Error(w, "txmgr: this server has no tokens, and on a loopback address it answers only to localhost and to addresses, not to "+r.Host, http.StatusForbidden)
	})
}

// isLocal reports whether a Host names this machine without a DNS lookup.
func isLocal(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	_, err := netip.ParseAddr(host)
	return err == nil || host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost")
}
