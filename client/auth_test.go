package client_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/internal/certs"
	"github.com/txmgr/txmgr/server"
	"github.com/txmgr/txmgr/server/servertest"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// Every request carries the token that is in the file at that moment.
func TestTokenFile(t *testing.T) {
	eachTransport(t, func(t *testing.T, cfg client.Config) {
		f := newTestCluster(t, 2)
		file := filepath.Join(t.TempDir(), "token")
		write(t, file, "txm_first\n", 0o644)
		var said bytes.Buffer
		cfg.Address, cfg.TokenFile, cfg.Log = f.address(0, 1), file, slog.New(slog.NewTextHandler(&said, nil))
		c := open(t, cfg)
		if !strings.Contains(said.String(), "can be read by others") {
			t.Errorf("said %q", said.String())
		}
		shown := func(n int, want string) {
			t.Helper()
			if _, err := c.Begin(t.Context(), txn.Options{}); err != nil {
				t.Fatal(err)
			}
			all := f.members[n].requests()
			if len(all) == 0 || all[len(all)-1].authorization != want {
				t.Errorf("%+v, want %s", all, want)
			}
		}
		shown(0, "Bearer txm_first")
		// Replaced atomically; the Pipe carries it when it is opened again.
		write(t, file+".new", "txm_second", 0o600)
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
		f.leader.Store(1)
		shown(1, "Bearer txm_second")
		// A missing file may be about to be replaced.
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Admin().Status(t.Context()); err != nil {
			t.Error(err)
		}
		// The client does not wait for a named pipe.
		if err := exec.Command("mkfifo", file).Run(); err != nil {
			t.Fatal(err)
		}
		asked := make(chan error, 1)
		go func() {
			_, err := c.Admin().Status(t.Context())
			asked <- err
		}()
		select {
		case err := <-asked:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("a pipe is waited for")
		}
	})
}

func TestTokenSettings(t *testing.T) {
	dir := t.TempDir()
	good, empty := filepath.Join(dir, "good"), filepath.Join(dir, "empty")
	write(t, good, "txm_x", 0o600)
	write(t, empty, "\n", 0o600)
	for says, cfg := range map[string]client.Config{
		"both Token and TokenFile":    {Token: "a", TokenFile: good},
		"is empty":                    {TokenFile: empty},
		"no such file":                {TokenFile: filepath.Join(dir, "none")},
		"no secret of txmgr":          {Token: "two words"},
		"belong together":             {CertFile: good},
		"holds no certificate":        {CACertFile: good},
		"certificates of servers":     {CACertFile: filepath.Join(dir, "none")},
		"own certificate":             {CertFile: good, KeyFile: good},
		"both TLS and files of certi": {CACertFile: good, TLS: &tls.Config{MinVersion: tls.VersionTLS13}},
	} {
		if _, err := client.Open(cfg); !errors.Is(err, txn.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("want %q: %v", says, err)
		}
	}
	for address, warns := range map[string]bool{
		"http://127.0.0.1:1,http://[::1]:1,http://localhost:1,https://192.0.2.1:1": false,
		"http://127.0.0.1:1,http://192.0.2.1:1":                                    true,
	} {
		var said bytes.Buffer
		open(t, client.Config{Address: address, Token: "txm_x", Log: slog.New(slog.NewTextHandler(&said, nil))})
		if strings.Contains(said.String(), "without TLS") != warns || strings.Contains(said.String(), "txm_x") {
			t.Errorf("%s: said %q", address, said.String())
		}
	}
}

// A rejected client gets the error at once, over either transport.
func TestDeniedAtOnce(t *testing.T) {
	eachTransport(t, func(t *testing.T, cfg client.Config) {
		fake := servertest.New()
		ln := listen(t, "127.0.0.1:0")
		t.Cleanup(serveOn(t, ln, fake, server.Config{Auth: true}))
		cfg.Address = "http://" + ln.Addr().String()
		for _, secret := range []string{"", "txm_wrongone_00000000000000000000000000000000"} {
			cfg.Token = secret
			c := open(t, cfg)
			started := time.Now()
			for range 10 {
				_, err := c.Commit(t.Context(), newID(1), txn.CommitRequest{})
				if e := (*txn.Error)(nil); !errors.Is(err, txn.ErrDenied) || errors.Is(err, txn.ErrUnavailable) || !errors.As(err, &e) || e.ID != newID(1) || e.Op != "commit" {
					t.Errorf("%q: %v", secret, err)
				}
			}
			if took := time.Since(started); took > 3*time.Second {
				t.Errorf("%q: told after %v", secret, took)
			}
		}
		_, secret, err := fake.CreateToken(t.Context(), admin.TokenRequest{Name: "app", Role: admin.RoleClient})
		if err != nil {
			t.Fatal(err)
		}
		cfg.Token = secret
		c := open(t, cfg)
		if _, err := c.Begin(t.Context(), txn.Options{}); err != nil {
			t.Error(err)
		}
		if _, err := c.Admin().Tokens(t.Context()); !errors.Is(err, txn.ErrDenied) {
			t.Errorf("a client's token lists tokens: %v", err)
		}
	})
}

// Both transports over TLS 1.3 with a client certificate.
func TestClientCertificate(t *testing.T) {
	dir := t.TempDir()
	authority, err := certs.NewAuthority("shop")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "ca.pem"), string(authority.Pair().Cert), 0o600)
	issue := func(name string, l certs.Leaf) certs.Pair {
		t.Helper()
		p, err := authority.Issue(l)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name+".pem"), string(p.Cert), 0o600)
		write(t, filepath.Join(dir, name+".key"), string(p.Key), 0o600)
		return p
	}
	p := issue("server", certs.Leaf{Name: "s", Roles: []string{certs.RoleServer}, Hosts: []string{"127.0.0.1"}})
	issue("app", certs.Leaf{Name: "app", Roles: []string{certs.RoleClient}})
	pair, err := tls.X509KeyPair(p.Cert, p.Key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority.Pair().Cert)

	s, err := server.New(server.Config{Log: slog.New(slog.NewTextHandler(io.Discard, nil))}, servertest.New())
	if err != nil {
		t.Fatal(err)
	}
	ts := httptest.NewUnstartedServer(s.Handler())
	ts.EnableHTTP2 = true
	ts.Config.ErrorLog = log.New(io.Discard, "", 0)
	ts.TLS = &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots}
	ts.StartTLS()
	t.Cleanup(ts.Close)
	eachTransport(t, func(t *testing.T, cfg client.Config) {
		cfg.Address, cfg.CACertFile = ts.URL, filepath.Join(dir, "ca.pem")
		outsider := open(t, cfg)
		started := time.Now()
		// In doubt where an earlier connection broke before the reason for that arrived.
		if _, err := outsider.Commit(t.Context(), newID(1), txn.CommitRequest{}); !errors.Is(err, txn.ErrDenied) && !errors.Is(err, txn.ErrInDoubt) || !strings.Contains(err.Error(), "certificate") || time.Since(started) > 3*time.Second {
			t.Errorf("without a certificate: %v after %v", err, time.Since(started))
		}
		cfg.CertFile, cfg.KeyFile = filepath.Join(dir, "app.pem"), filepath.Join(dir, "app.key")
		c := open(t, cfg)
		b, err := c.Begin(t.Context(), txn.Options{})
		if err == nil {
			_, err = c.Commit(t.Context(), b.ID, txn.CommitRequest{})
		}
		if err == nil { // the other protocol, independent of the one before
			_, err = c.List(t.Context(), admin.Filter{})
		}
		if err != nil {
			t.Error(err)
		}
		cfg.CACertFile = ""
		if _, err := open(t, cfg).Begin(t.Context(), txn.Options{}); !errors.Is(err, txn.ErrUnavailable) || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("a server that is not trusted: %v", err)
		}
	})
}

func write(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// A call that is not idempotent is not repeated once it may have been executed.
func TestOnce(t *testing.T) {
	ln := listen(t, "127.0.0.1:0")
	l := &losesTokens{Fake: servertest.New(), ln: ln}
	t.Cleanup(serveOn(t, ln, l, server.Config{}))
	c := open(t, client.Config{Address: "http://" + freePort(t) + ",http://" + ln.Addr().String()})
	_, _, err := c.Admin().CreateToken(t.Context(), admin.TokenRequest{Name: "app", Role: admin.RoleClient})
	if !errors.Is(err, txn.ErrUnavailable) || !strings.Contains(err.Error(), "may have been done all the same") {
		t.Errorf("%v", err)
	}
	if all, err := c.Admin().Tokens(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("%d tokens, %v", len(all), err)
	}
	if err := c.Admin().Leave(t.Context(), "ann", ""); !errors.Is(err, txn.ErrInvalid) {
		t.Errorf("leave with two addresses: %v", err)
	}
	l.whole = true
	made, secret, err := c.Admin().CreateToken(t.Context(), admin.TokenRequest{Name: "app", Role: admin.RoleClient, Rate: 5, TTL: time.Hour})
	if found, ok := l.AuthenticateToken(secret); err != nil || !ok || found.ID != made.ID || made.Rate != 5 || made.Expires.IsZero() {
		t.Errorf("%+v, %v", made, err)
	}
}

// The same if the answer was lost between two nodes.
func TestOnceByWayOfAnotherNode(t *testing.T) {
	ln := listen(t, "127.0.0.1:0")
	l := &losesTokens{Fake: servertest.New(), ln: ln}
	t.Cleanup(serveOn(t, ln, l, server.Config{}))
	follower := servertest.New()
	follower.SetLeader("http://"+ln.Addr().String(), false)
	c := open(t, client.Config{Address: serve(t, follower)})
	_, _, err := c.Admin().CreateToken(soon(t, 5*time.Second), admin.TokenRequest{Name: "app", Role: admin.RoleClient})
	if !errors.Is(err, txn.ErrUnavailable) || !strings.Contains(err.Error(), "may have been done all the same") {
		t.Errorf("%v", err)
	}
	if n := l.made.Load(); n != 1 {
		t.Errorf("asked for %d tokens", n)
	}
	// A try whose answer was lost has deleted it, so the next one does not find it.
	if err := c.Admin().RemoveParticipant(t.Context(), "bank", "", ""); !errors.Is(err, txn.ErrNotFound) || !strings.Contains(err.Error(), "may have done it") {
		t.Errorf("%v", err)
	}
	if err := c.Admin().RemoveParticipant(t.Context(), "bank", "", ""); !errors.Is(err, txn.ErrNotFound) || strings.Contains(err.Error(), "may have done it") {
		t.Errorf("%v", err)
	}
}

// losesTokens creates tokens and closes every connection before it answers.
type losesTokens struct {
	*servertest.Fake
	ln    *listener
	whole bool
	made  atomic.Int64
	cut   sync.Once
}

func (l *losesTokens) Admin() admin.Calls { return l }

func (l *losesTokens) RemoveParticipant(ctx context.Context, name, by, reason string) error {
	err := l.Fake.RemoveParticipant(ctx, name, by, reason)
	l.cut.Do(l.ln.cut)
	return err
}

func (l *losesTokens) CreateToken(ctx context.Context, r admin.TokenRequest) (admin.Token, string, error) {
	l.made.Add(1)
	t, secret, err := l.Fake.CreateToken(ctx, r)
	if !l.whole {
		l.ln.cut()
	}
	return t, secret, err
}
