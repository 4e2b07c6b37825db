package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// logBuffer is a log that tests read.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *logBuffer) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *logBuffer) count(s string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Count(r.text.Bytes(), []byte(s))
}

func (r *logBuffer) logger() *slog.Logger { return slog.New(slog.NewTextHandler(r, nil)) }

func authority(t testing.TB, cluster string) *Authority {
	t.Helper()
	a, err := NewAuthority(cluster)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func issue(t testing.TB, a *Authority, roles ...string) Pair {
	t.Helper()
	p, err := a.Issue(Leaf{Name: "a1", Roles: roles, Hosts: []string{"127.0.0.1", "db.example"}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// issueValid issues a certificate with a chosen validity.
func issueValid(t testing.TB, a *Authority, from, to time.Time) Pair {
	t.Helper()
	_, p, err := sign(&x509.Certificate{
		NotBefore: from, NotAfter: to, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		URIs:        []*url.URL{{Scheme: scheme, Host: a.cluster, Path: "/peer/a1"}},
	}, a)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// files writes what is not nil into dir.
func files(t testing.TB, dir string, own Pair, ca []byte) Files {
	t.Helper()
	f := Files{}
	for _, w := range []struct {
		path *string
		name string
		data []byte
	}{{&f.Cert, "own.crt", own.Cert}, {&f.Key, "own.key", own.Key}, {&f.CA, "ca.crt", ca}} {
		if w.data == nil {
			continue
		}
		*w.path = filepath.Join(dir, w.name)
		// Replaces the old file atomically, as tools that renew certificates do.
		next := *w.path + ".new"
		if err := errors.Join(os.WriteFile(next, w.data, 0o600), os.Rename(next, *w.path)); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func peer(t testing.TB, own Pair, ca []byte) *PeerStore {
	t.Helper()
	s, err := OpenPeer(files(t, t.TempDir(), own, ca), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// handshake connects two sides on loopback. A client learns that it was refused when it
// reads, so it reads.
func handshake(t testing.TB, server, client *tls.Config) (serverErr, clientErr error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	served := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			served <- err
			return
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		tc := tls.Server(c, server)
		if err = tc.Handshake(); err == nil {
			_, err = tc.Write([]byte("!"))
		}
		served <- err
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	tc := tls.Client(c, client)
	_, clientErr = io.ReadFull(tc, make([]byte, 1))
	if clientErr != nil {
		c.Close()
	}
	return <-served, clientErr
}
