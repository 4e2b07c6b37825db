package certs

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/txn"
)

func store(t testing.TB, own Pair, ca []byte) *Store {
	t.Helper()
	s, err := Open(files(t, t.TempDir(), own, ca), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAPI(t *testing.T) {
	ours, foreign := authority(t, "bank"), authority(t, "shop")
	ca := ours.Pair().Cert
	own := issue(t, ours, RoleServer)
	server := func(ca []byte, required bool) *tls.Config {
		c, err := store(t, own, ca).Server(required)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	client := func(own Pair, ca []byte, host string) *tls.Config { return store(t, own, ca).Client(host) }
	nobody, somebody, outsider := Pair{}, issue(t, ours, RoleClient), issue(t, foreign, RoleClient)
	old := client(nobody, ca, "127.0.0.1")
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	for name, tt := range map[string]struct {
		server, client *tls.Config
		ok             bool
	}{
		"by address":                        {server(nil, false), client(nobody, ca, "127.0.0.1"), true},
		"by name":                           {server(nil, false), client(nobody, ca, "db.example"), true},
		"by another address":                {server(nil, false), client(nobody, ca, "127.0.0.2"), false},
		"by another name":                   {server(nil, false), client(nobody, ca, "other.example"), false},
		"of another authority":              {server(nil, false), client(nobody, foreign.Pair().Cert, "127.0.0.1"), false},
		"TLS 1.2":                           {server(nil, false), old, false},
		"may be shown, is not":              {server(ca, false), client(nobody, ca, "127.0.0.1"), true},
		"may be shown, is":                  {server(ca, false), client(somebody, ca, "127.0.0.1"), true},
		"may be shown, is a stranger's":     {server(ca, false), client(outsider, ca, "127.0.0.1"), false},
		"has to be shown, is not":           {server(ca, true), client(nobody, ca, "127.0.0.1"), false},
		"has to be shown, is":               {server(ca, true), client(somebody, ca, "127.0.0.1"), true},
		"has to be shown, is a stranger's":  {server(ca, true), client(outsider, ca, "127.0.0.1"), false},
		"is not asked for, is a stranger's": {server(nil, false), client(outsider, ca, "127.0.0.1"), true},
	} {
		t.Run(name, func(t *testing.T) {
			s, c := handshake(t, tt.server, tt.client)
			if ok := s == nil && c == nil; ok != tt.ok {
				t.Errorf("server: %v; client: %v; want success: %v", s, c, tt.ok)
			}
		})
	}
	if _, err := store(t, own, nil).Server(true); !errors.Is(err, txn.ErrInvalid) {
		t.Errorf("required without an authority: %v", err)
	}
	if _, err := store(t, nobody, ca).Server(false); !errors.Is(err, txn.ErrInvalid) {
		t.Errorf("a server without certificate: %v", err)
	}
}

// Files are checked once a second, and errors are logged once.
func TestRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours := authority(t, "bank")
		dir, log := t.TempDir(), &logBuffer{}
		first, second := issue(t, ours, RolePeer), issue(t, ours, RolePeer)
		s, err := OpenPeer(files(t, dir, first, ours.Pair().Cert), log.logger())
		if err != nil {
			t.Fatal(err)
		}
		is := func(want Pair) bool {
			pair, err := tls.X509KeyPair(want.Cert, want.Key)
			if err != nil {
				t.Fatal(err)
			}
			return pair.Leaf.Equal(s.reloader.current().cert.Leaf)
		}
		files(t, dir, second, nil)
		if !is(first) {
			t.Error("files were looked at more often than once a second")
		}
		<-time.After(time.Second)
		if !is(second) {
			t.Error("a second later the old certificate is still in use")
		}
		files(t, dir, Pair{Cert: first.Cert}, nil) // its key is not written yet
		for range 5 {
			<-time.After(time.Second)
			if !is(second) {
				t.Error("a broken file took the good one's place")
			}
		}
		if n := log.count("cannot be used"); n != 1 {
			t.Errorf("%d complaints of one broken file, want 1:\n%s", n, log.text.String())
		}
		if err := s.Reload(); !errors.Is(err, ErrKeyMismatch) || !is(second) {
			t.Errorf("reload of broken files: %v", err)
		}
		files(t, dir, Pair{Key: first.Key}, nil)
		if err := s.Reload(); err != nil || !is(first) {
			t.Errorf("reload at once: %v", err)
		}
		if err := os.Remove(dir + "/own.crt"); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		if !is(first) || log.count("cannot be used") != 2 {
			t.Errorf("after the file was removed: complaints %d, want 2", log.count("cannot be used"))
		}
		if d := time.Until(s.Expires()); d > leafDays*24*time.Hour || d < (leafDays-1)*24*time.Hour {
			t.Errorf("expires in %v", d)
		}
	})
}

func TestExposedKey(t *testing.T) {
	ours := authority(t, "bank")
	f := files(t, t.TempDir(), issue(t, ours, RolePeer), ours.Pair().Cert)
	for mode, want := range map[os.FileMode]int{0o600: 0, 0o400: 0, 0o640: 0, 0o644: 1, 0o660: 1, 0o604: 1} {
		log := &logBuffer{}
		if err := os.Chmod(f.Key, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenPeer(f, log.logger()); err != nil {
			t.Fatal(err)
		}
		if n := log.count("chmod 600"); n != want {
			t.Errorf("mode %o: %d warnings, want %d", mode, n, want)
		}
	}
}

// While certificates and authorities are renewed, one after the other as operators do, no
// handshake is refused.
func TestRenewalUnderLoad(t *testing.T) {
	old, next := authority(t, "bank"), authority(t, "bank")
	both := append(append([]byte{}, old.Pair().Cert...), next.Pair().Cert...)
	var dirs []string
	var stores []*PeerStore
	for range 2 {
		dir := t.TempDir()
		s, err := OpenPeer(files(t, dir, issue(t, old, RolePeer), old.Pair().Cert), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		dirs, stores = append(dirs, dir), append(stores, s)
	}
	stop, finished := make(chan struct{}), [2]chan struct{}{make(chan struct{}), make(chan struct{})}
	var load sync.WaitGroup
	for i, finished := range finished {
		server, client := stores[i].Server(), stores[1-i].Client()
		load.Go(func() {
			defer close(finished)
			for {
				if s, c := handshake(t, server, client); s != nil || c != nil {
					t.Errorf("refused: %v; %v", s, c)
					return
				}
				select {
				case <-stop:
					return
				case finished <- struct{}{}:
				default: // the load does not wait for the counter
				}
			}
		})
	}
	renew := func(own Pair, ca []byte) {
		for i, s := range stores {
			files(t, dirs[i], own, ca)
			if err := s.Reload(); err != nil {
				t.Error(err)
			}
		}
		// The second handshake to finish began after the renewal.
		for _, f := range finished {
			<-f
			<-f
		}
	}
	for range 10 {
		renew(Pair{}, both)
		renew(issue(t, next, RolePeer), nil)
		renew(Pair{}, next.Pair().Cert)
		renew(Pair{}, both)
		renew(issue(t, old, RolePeer), nil)
	}
	renew(Pair{}, both)
	renew(issue(t, next, RolePeer), nil)
	renew(Pair{}, next.Pair().Cert)
	close(stop)
	load.Wait()
	late := peer(t, issue(t, old, RolePeer), old.Pair().Cert).Client()
	late.VerifyConnection = nil
	if s, _ := handshake(t, stores[0].Server(), late); !errors.Is(s, ErrUnknownAuthority) {
		t.Errorf("the old authority after its end: %v", s)
	}
}
