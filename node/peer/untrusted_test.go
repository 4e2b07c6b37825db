package peer

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/internal/certs"
	"github.com/txmgr/txmgr/internal/logsample"
	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/txn"
)

// What is not of this protocol costs its connection, and one line in the log.
func TestGarbage(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"plain": func(*Config) {}, "TLS": certified(t, authority(t, "bank"), "b", certs.RolePeer),
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t, "n_b", change)
			for _, says := range []string{
				"GET / HTTP/1.1\r\n\r\n",
				strings.Repeat("\x00", 100),
				strings.Repeat("\xff", 1<<16),
				"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("x", 600),
				magic + "\x01\x01\xff\xff" + strings.Repeat("x", 1<<16),
				magic + "\x01\x01\x00\x02{}",
				magic + "\x01\x01\x00\x02[]",
				magic + "\x01\x05\x00\x02{}",
				magic + "\x01\x00\x00\x00",
			} {
				c := dialRaw(t, b.Server, says)
				if c, ok := c.(*net.TCPConn); ok {
					_ = c.CloseWrite()
				}
				// What comes back ends, and it is not much.
				if got, err := io.ReadAll(io.LimitReader(c, 1<<16)); len(got) > maxHandshakeBytes || err != nil && !isDisconnect(err) {
					t.Errorf("%.20q: %d bytes came back, %v", says, len(got), err)
				}
				c.Close()
			}
			if n := b.log.count("level=WARN"); n != 1 {
				t.Errorf("%d warnings, want 1:\n%v", n, b.log)
			}
			if n := len(b.conns.list(func(*conn) bool { return true })); n != 0 {
				t.Errorf("%d connections were let in", n)
			}
		})
	}
}

// Malformed data after the handshake, in place of a request.
func TestGarbledQuestion(t *testing.T) {
	a, b := start(t, "n_a"), start(t, "n_b")
	for _, says := range []string{"x", magic + "\x01\x04\x00\x02{}", magic + "\x01\x04\x00\x10" + `{"ask":"destroy"}`, magic + "\x01\x04\xff\xff"} {
		c, err := a.dial(testContext(t), b.Addr(), frameCall, "")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, says)
		_ = c.Conn.(*net.TCPConn).CloseWrite()
		if got, err := io.ReadAll(c); len(got) > 0 || err != nil && !isDisconnect(err) {
			t.Errorf("%q: %q came back, %v", says, got, err)
		}
		c.Close()
	}
	if _, err := a.Hello(testContext(t), b.Addr()); err != nil {
		t.Error(err)
	}
}

// Connections that send nothing, or send it slowly, keep no node out and are closed.
func TestSlowloris(t *testing.T) {
	t.Parallel()
	b := start(t, "n_b")
	var slow []net.Conn
	for i := range 3 * maxPendingPerHost {
		says := ""
		if i%2 == 0 {
			says = magic[:i%4]
		}
		slow = append(slow, dialRaw(t, b.Server, says))
	}
	// The oldest have made room already.
	for _, c := range slow[:2*maxPendingPerHost-1] {
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("one who said nothing was answered")
		}
	}
	a := start(t, "n_a")
	for range 2 * maxPendingPerHost {
		if _, err := a.Hello(testContext(t), b.Addr()); err != nil {
			t.Fatalf("a node was kept out: %v", err)
		}
	}
	// The others end with their time, also the one that keeps talking.
	talker, begun := slow[len(slow)-1], time.Now()
	var talk sync.WaitGroup
	stop := make(chan struct{})
	talk.Go(func() {
		for _, letter := range magic + "\x01\x01\x02\x00" + strings.Repeat(" ", 512) {
			if _, err := talker.Write([]byte{byte(letter)}); err != nil {
				return
			}
			select {
			case <-time.After(50 * time.Millisecond):
			case <-stop:
				return
			}
		}
	})
	for _, c := range slow[2*maxPendingPerHost-1:] {
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("one who said nothing was answered")
		}
	}
	close(stop)
	talk.Wait()
	if took := time.Since(begun); took > handshakeTimeout+2*time.Second {
		t.Errorf("they stayed for %v", took)
	}
	if n := b.log.count("level=WARN"); n != 0 {
		t.Errorf("%d warnings for those who said nothing:\n%v", n, b.log)
	}
}

// The handshake limiter closes the right connection.
func TestDoor(t *testing.T) {
	d := &handshakeLimiter{}
	guests := func(host string, n int) (list []*pendingConn) {
		for range n {
			here, there := net.Pipe()
			t.Cleanup(func() { here.Close(); there.Close() })
			list = append(list, d.add(connFromHost{here, host}))
		}
		return list
	}
	waits := func(g *pendingConn) bool {
		for _, o := range d.pending {
			if o == g {
				return true
			}
		}
		return false
	}
	first := guests("10.0.0.1", 1)[0]
	flood := guests("10.0.0.2", 3*maxPendingPerHost)
	if !waits(first) || waits(flood[0]) || !waits(flood[len(flood)-1]) || len(d.pending) != 1+maxPendingPerHost {
		t.Errorf("a flood from one address: %d wait", len(d.pending))
	}
	for i := range 2 * maxPending {
		guests(fmt.Sprintf("10.1.%d.%d", i/250, i%250), 1)
	}
	if waits(first) || len(d.pending) != maxPending {
		t.Errorf("a flood from many addresses: %d wait", len(d.pending))
	}
	d.close()
	late := guests("10.0.0.3", 1)[0]
	if len(d.pending) != 0 || waits(late) {
		t.Error("somebody waits at a closed door")
	}
	if _, err := late.raw.Write([]byte("x")); err == nil {
		t.Error("who came late was not sent away")
	}
}

// connFromHost is a connection from an address.
type connFromHost struct {
	net.Conn
	host string
}

func (f connFromHost) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(f.host), Port: 1} }

func TestFull(t *testing.T) {
	a, b := start(t, "n_a"), start(t, "n_b")
	b.conns.mu.Lock()
	b.conns.accepted = maxConns
	b.conns.mu.Unlock()
	if _, err := a.Hello(testContext(t), b.Addr()); !errors.Is(err, txn.ErrUnavailable) || !strings.Contains(err.Error(), "connected already") {
		t.Errorf("one more than there may be: %v", err)
	}
	b.conns.mu.Lock()
	b.conns.accepted = 0
	b.conns.mu.Unlock()
	for range 3 {
		if _, err := a.Hello(testContext(t), b.Addr()); err != nil {
			t.Error(err)
		}
	}
	waittest.Until(t, "all connections given back", func() bool {
		b.conns.mu.Lock()
		defer b.conns.mu.Unlock()
		return b.conns.accepted == 0 && len(b.conns.conns) == 0
	})
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	nothing := &certs.Files{Cert: filepath.Join(dir, "a"), Key: filepath.Join(dir, "b"), CA: filepath.Join(dir, "c")}
	self := func() Identity { return Identity{ID: "n_a"} }
	for name, c := range map[string]Config{
		"no address":             {Self: self},
		"no port":                {Self: self, Listen: "127.0.0.1"},
		"nobody":                 {Listen: "127.0.0.1:0"},
		"all addresses":          {Self: self, Listen: ":0"},
		"a public one":           {Self: self, Listen: "192.0.2.1:0", Advertise: "192.0.2.1:1"},
		"nothing to advertise":   {Self: self, Listen: "0.0.0.0:0", Insecure: true},
		"advertise without port": {Self: self, Listen: "127.0.0.1:0", Advertise: "127.0.0.1"},
		"no files":               {Self: self, Listen: "127.0.0.1:0", TLS: nothing},
	} {
		if p, err := Open(c); !errors.Is(err, txn.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
			if p != nil {
				p.Close()
			}
		}
	}
	if _, err := os.Stat(nothing.Cert); err == nil {
		t.Error("files were made")
	}
	p := start(t, "n_a", func(c *Config) { c.Listen, c.Insecure, c.Advertise = "0.0.0.0:0", true, "db1.example:7461" })
	if p.Addr() != "db1.example:7461" {
		t.Errorf("advertised: %s", p.Addr())
	}
	if p := start(t, "n_a", func(c *Config) { c.Listen = "localhost:0" }); !strings.HasPrefix(p.Addr(), "localhost:") || strings.HasSuffix(p.Addr(), ":0") {
		t.Errorf("advertised: %s", p.Addr())
	}
}

// A warning is logged once a minute, with the number of suppressed ones.
func TestWarningsAreSampled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &logBuffer{}
		p := &Server{conf: Config{Logger: slog.New(slog.NewTextHandler(r, nil))}, sampler: logsample.New(logsample.Minute, 1)}
		for range 5 {
			p.warn("a", "first")
		}
		p.warn("b", "second")
		if r.count("first") != 1 || r.count("second") != 1 {
			t.Errorf("log:\n%v", r)
		}
		<-time.After(time.Minute)
		p.warn("a", "first")
		if r.count("first") != 2 || r.count("held_back=4") != 1 {
			t.Errorf("a minute later:\n%v", r)
		}
	})
}
