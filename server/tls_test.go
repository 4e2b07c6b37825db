package server_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/api/txmgr/v1/txmgrv1connect"
	"github.com/txmgr/txmgr/internal/certs"
	"github.com/txmgr/txmgr/server"
	"github.com/txmgr/txmgr/server/servertest"
	"github.com/txmgr/txmgr/txn"
)

// authority is a private authority and the certificates that it has signed, in files.
type authority struct {
	t   *testing.T
	dir string
	ca  *certs.Authority
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	ca, err := certs.NewAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{t, t.TempDir(), ca}
	a.write("ca", ca.Pair())
	return a
}

func (a *authority) path(name string) string { return filepath.Join(a.dir, name+".crt") }

func (a *authority) write(name string, p certs.Pair) server.TLS {
	a.t.Helper()
	key := filepath.Join(a.dir, name+".key")
	for path, data := range map[string][]byte{a.path(name): p.Cert, key: p.Key} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	return server.TLS{CertFile: a.path(name), KeyFile: key, CAFile: a.path("ca")}
}

// node makes the certificate of a node.
func (a *authority) node(name string, roles ...string) server.TLS {
	a.t.Helper()
	p, err := a.ca.Issue(certs.Leaf{Name: name, Roles: roles, Hosts: []string{"127.0.0.1"}})
	if err != nil {
		a.t.Fatal(err)
	}
	return a.write(name, p)
}

// trusting makes a client that trusts the authority, and presents a certificate if there is
// one.
func (a *authority) trusting(show *server.TLS) *http.Client {
	a.t.Helper()
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(a.ca.Pair().Cert)
	if show != nil {
		c, err := tls.LoadX509KeyPair(show.CertFile, show.KeyFile)
		if err != nil {
			a.t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{c}
	}
	t := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	a.t.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t}
}

func (r *running) secured(c *http.Client) *running {
	s := *r
	s.base, s.http = "https://"+r.addr, c
	return &s
}

// Calls work over TLS, from the client to one node and from there to the leader, over
// HTTP/1.1 and HTTP/2, including a Pipe.
func TestTLS(t *testing.T) {
	a := newAuthority(t)
	leader := start(t, func(c *server.Config, _ *servertest.Fake) { c.TLS = a.node("n1", certs.RoleServer) }).secured(a.trusting(nil))
	there := follower(t, leader.base, func(c *server.Config, _ *servertest.Fake) { c.TLS = a.node("n2", certs.RoleServer) }).secured(a.trusting(nil))
	for _, r := range []*running{leader, there} {
		if a := r.curl("Begin", begin(id1)); a.status != http.StatusOK {
			t.Errorf("%d %s", a.status, a.body)
		}
		p, err := txmgrv1connect.NewTransactionServiceClient(r.http, r.base).Pipeline(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		send(t, p, &txmgrv1.Command{Seq: 1, Id: parseID(t, id1), Call: &txmgrv1.Command_Get{Get: &txmgrv1.GetCall{}}})
		if got := receive(t, p, 1)[1]; got.GetGet().GetState() != "active" {
			t.Errorf("%v", got)
		}
		_, _ = p.CloseRequest(), p.CloseResponse()
		if a := r.get("/metrics"); !strings.Contains(a.body, "\ntxmgr_certificate_expires_timestamp_seconds 1.") {
			t.Error("no end of the certificate in the metrics")
		}
	}
	// A client without TLS, and a client that trusts another authority.
	plain, err := http.Get("http://" + leader.addr + "/livez")
	if err == nil {
		if plain.Body.Close(); plain.StatusCode == http.StatusOK {
			t.Error("answered without TLS")
		}
	}
	if _, err := newAuthority(t).trusting(nil).Get(leader.base + "/livez"); err == nil {
		t.Error("trusted by another authority")
	}
	old := a.trusting(nil)
	old.Transport.(*http.Transport).TLSClientConfig.MaxVersion = tls.VersionTLS12
	if _, err := old.Get(leader.base + "/livez"); err == nil {
		t.Error("serves TLS 1.2")
	}
	http.DefaultClient.CloseIdleConnections()
}

// Nothing is sent to a leader whose certificate is of another authority.
func TestForwardingChecksTheLeader(t *testing.T) {
	a, b := newAuthority(t), newAuthority(t)
	leader := start(t, func(c *server.Config, f *servertest.Fake) {
		c.TLS = b.node("n1", certs.RoleServer)
		f.Before = func(context.Context, string, txn.ID) error {
			t.Error("the call arrived")
			return nil
		}
	}).secured(b.trusting(nil))
	there := follower(t, leader.base, func(c *server.Config, _ *servertest.Fake) { c.TLS = a.node("n2", certs.RoleServer) }).secured(a.trusting(nil))
	if a := there.curl("Commit", begin(id1)); a.header.Get("Txmgr-Code") != "UNAVAILABLE" || !strings.Contains(a.body, "authority") {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// With an authority for clients, clients need a certificate, except for health; nodes that
// forward calls present their own.
func TestClientCertificates(t *testing.T) {
	a := newAuthority(t)
	mutual := func(t server.TLS) server.TLS {
		t.ClientCAFile, t.CAFile = t.CAFile, ""
		return t
	}
	shown := a.node("app", certs.RoleClient)
	outsider := newAuthority(t).node("app", certs.RoleClient)
	leader := start(t, func(c *server.Config, _ *servertest.Fake) { c.TLS = mutual(a.node("n1", certs.RoleServer)) }).secured(a.trusting(&shown))
	there := follower(t, leader.base, func(c *server.Config, _ *servertest.Fake) { c.TLS = mutual(a.node("n2", certs.RoleServer)) }).secured(a.trusting(&shown))
	for _, r := range []*running{leader, there} {
		if a := r.curl("Begin", begin(id1)); a.status != http.StatusOK {
			t.Errorf("%d %s", a.status, a.body)
		}
		anybody := r.secured(a.trusting(nil))
		if a := anybody.curl("Begin", begin(id1)); a.status != http.StatusUnauthorized || a.header.Get("Txmgr-Code") != "DENIED" || !strings.Contains(a.body, "client certificate") {
			t.Errorf("%d %s", a.status, a.body)
		}
		if a := anybody.get("/metrics"); a.status != http.StatusUnauthorized {
			t.Errorf("metrics: %d", a.status)
		}
		if a := anybody.get("/readyz"); a.status != http.StatusOK {
			t.Errorf("health: %d", a.status)
		}
		client := txmgrv1connect.NewTransactionServiceClient(a.trusting(&outsider), r.base)
		if _, err := client.Get(context.Background(), &txmgrv1.GetRequest{Id: id1}); err == nil || connect.CodeOf(err) == connect.CodeNotFound {
			t.Errorf("a stranger: %v", err)
		}
	}
}

// Beyond loopback the server requires both TLS and tokens, and says which of them is missing.
func TestBeyondLoopback(t *testing.T) {
	a := newAuthority(t)
	files, root := a.node("n1", certs.RoleServer), rootFile(t, rootSecret)
	for _, c := range []struct {
		cfg     server.Config
		missing []string
	}{
		{server.Config{}, []string{"no TLS", "no tokens"}},
		{server.Config{TLS: files}, []string{"no tokens"}},
		{server.Config{RootTokenFile: root}, []string{"no TLS"}},
		{server.Config{TLS: files, RootTokenFile: root}, nil},
		{server.Config{TLS: files, Auth: true}, nil},
		{server.Config{Insecure: true}, nil},
	} {
		c.cfg.Listen = "0.0.0.0:0"
		s, err := server.New(c.cfg, servertest.New())
		if err != nil {
			t.Fatal(err)
		}
		ln, err := s.Listen()
		if err == nil {
			_ = ln.Close()
		}
		if (len(c.missing) > 0) != errors.Is(err, txn.ErrDenied) {
			t.Errorf("%+v: %v", c.cfg, err)
		}
		for _, m := range []string{"no TLS", "no tokens"} {
			if want := strings.Contains(strings.Join(c.missing, ","), m); err != nil && strings.Contains(err.Error(), m) != want {
				t.Errorf("%v", err)
			}
		}
	}
	for _, bad := range []server.TLS{{CertFile: files.CertFile}, {KeyFile: files.KeyFile}, {ClientCAFile: files.CAFile}, {CertFile: "none", KeyFile: "none"}} {
		if _, err := server.New(server.Config{TLS: bad}, servertest.New()); !errors.Is(err, txn.ErrInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}
