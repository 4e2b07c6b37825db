package web

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/txmgr/txmgr/internal/certs"
	"github.com/txmgr/txmgr/participant"
)

// TestHealthWarnsOfACertificateThatEnds two weeks before it expires, after which no branch can be
// finished at the service.
func TestHealthWarnsOfACertificateThatEnds(t *testing.T) {
	authority, err := certs.NewAuthority("test")
	check(t, err)
	file := filepath.Join(t.TempDir(), "ca.pem")
	check(t, os.WriteFile(file, authority.Pair().Cert, 0o600))
	for days, warned := range map[int]bool{1: true, 13: true, 15: false} {
		pair, err := authority.Issue(certs.Leaf{Name: "service", Roles: []string{certs.RoleServer}, Hosts: []string{"127.0.0.1"}, Days: days})
		check(t, err)
		certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
		check(t, err)
		s := httptest.NewUnstartedServer(http.HandlerFunc(consent))
		s.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
		s.StartTLS()
		got := false
		for _, d := range opened(t, map[string]string{"url": s.URL, "ca_file": file}).CheckHealth(t.Context()) {
			if strings.HasPrefix(d.Subject, "certificate") {
				got = d.Level == participant.Warning && strings.HasPrefix(d.Message, "ends in ") && d.Remedy != ""
			}
		}
		if got != warned {
			t.Errorf("of a certificate that ends in %d days it warns: %v", days, got)
		}
		s.Close()
	}
}
