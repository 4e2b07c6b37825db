package server_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txmgr/txmgr/server"
	"github.com/txmgr/txmgr/server/servertest"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// commits begins and commits a transaction, and fails if that takes long.
func (r *running) commits(n byte) {
	id := txn.NewID(time.Now(), [9]byte{n}).String()
	started := time.Now()
	for _, method := range []string{"Begin", "Commit"} {
		if a := r.curl(method, begin(id)); a.status != http.StatusOK {
			r.t.Errorf("%s: %d %s", method, a.status, a.body)
		}
	}
	if d := time.Since(started); d > 2*time.Second {
		r.t.Errorf("a commit took %v", d)
	}
}

// A thousand clients that send a byte a second delay no other client, and are disconnected.
func TestSlowloris(t *testing.T) {
	r := start(t, func(c *server.Config, _ *servertest.Fake) { c.ReadTimeout = 3 * time.Second })
	const slow = 1000
	sent := "POST /txmgr.v1.TransactionService/Begin HTTP/1.1\r\nHost: localhost\r\nX-Slow: " + strings.Repeat("x", 100)
	var left atomic.Int64
	var wg sync.WaitGroup
	for i := range slow {
		c := dial(t, r.addr)
		if i%2 == 1 { // complete headers, and a slow body
			if _, err := io.WriteString(c, "POST /txmgr.v1.TransactionService/Begin HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 200\r\n\r\n{"); err != nil {
				t.Fatal(err)
			}
		}
		wg.Go(func() {
			second := time.NewTicker(time.Second)
			defer second.Stop()
			gone, leave := make(chan struct{}), sync.OnceFunc(func() { left.Add(1) })
			go func() {
				defer close(gone)
				if _, err := io.Copy(io.Discard, c); err == nil || !errors.Is(err, net.ErrClosed) && !isTimeout(err) {
					leave()
				}
			}()
			for n := range 12 {
				select {
				case <-gone:
					return
				case <-second.C:
				}
				if _, err := c.Write([]byte{sent[n]}); err != nil {
					leave()
					break
				}
			}
			_ = c.Close()
			<-gone
		})
	}
	for i := range 20 {
		r.commits(byte(i))
	}
	wg.Wait()
	if n := left.Load(); n < slow*95/100 {
		t.Errorf("%d of %d were left", n, slow)
	}
	if a := r.get("/metrics"); !strings.Contains(a.body, "txmgr_connections ") {
		t.Error("no connections in the metrics")
	}
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// Connections above the limit are closed at once; open ones continue, and when one ends
// another is accepted.
func TestTooManyConnections(t *testing.T) {
	r := start(t, func(c *server.Config, _ *servertest.Fake) { c.MaxConnections, c.MaxConnectionsPerAddress = 3, 3 })
	r.commits(1) // keeps one open
	first, second := dial(t, r.addr), dial(t, r.addr)
	eventually(t, "three connections", func() bool { return strings.Contains(r.get("/metrics").body, "txmgr_connections 3\n") })
	if said, err := io.ReadAll(dial(t, r.addr)); len(said) > 0 {
		t.Errorf("a fourth was told %q, %v", said, err)
	}
	r.commits(2)
	if a := r.get("/metrics"); !strings.Contains(a.body, "txmgr_connections_rejected_total 1\n") {
		t.Error("metrics do not say so")
	}
	_, _ = first.Close(), second.Close()
	eventually(t, "room", func() bool {
		c := dial(t, r.addr)
		defer c.Close()
		if _, err := io.WriteString(c, "GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); err != nil {
			return false
		}
		said, err := io.ReadAll(c)
		return err == nil && strings.Contains(string(said), "200 OK")
	})
}

// One address cannot use up the connections of all others.
func TestOneAddressTakesNotAllConnections(t *testing.T) {
	r := start(t, func(c *server.Config, _ *servertest.Fake) { c.MaxConnections = 4 })
	r.commits(1) // keeps one of two open
	dial(t, r.addr)
	eventually(t, "two connections", func() bool { return strings.Contains(r.get("/metrics").body, "txmgr_connections 2\n") })
	if said, err := io.ReadAll(dial(t, r.addr)); len(said) > 0 || isTimeout(err) {
		t.Errorf("a third was told %q, %v", said, err)
	}
	if a := r.get("/metrics"); !strings.Contains(a.body, "txmgr_connections_rejected_total 1\n") {
		t.Error("metrics do not say so")
	}
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	c, err := from.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if said, err := io.ReadAll(c); err != nil || !strings.Contains(string(said), "200 OK") {
		t.Errorf("from another address: %q, %v", said, err)
	}
}

// A flood of wrong tokens from many clients at once does not delay a client with a valid token.
func TestCommitsGoOnInAFlood(t *testing.T) {
	r := startWithAuth(t, nil)
	_, secret := r.token(admin.TokenRequest{Name: "app", Role: admin.RoleClient})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var floods atomic.Int64
	for range 8 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				req, err := http.NewRequest(http.MethodPost, r.base+"/txmgr.v1.TransactionService/List", strings.NewReader(`{}`))
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("Authorization", "Bearer wrong-wrong-wrong")
				res, err := r.http.Do(req)
				if err != nil {
					continue // closed by the server
				}
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				if res.StatusCode == http.StatusTooManyRequests {
					floods.Add(1)
				}
			}
		})
	}
	app := *r
	app.as(secret)
	for i := range 50 {
		app.commits(byte(i))
	}
	close(stop)
	wg.Wait()
	if floods.Load() == 0 {
		t.Error("there was no flood")
	}
}
