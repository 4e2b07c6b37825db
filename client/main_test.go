package client_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/server"
	"github.com/txmgr/txmgr/txn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs a server for c on a free port until the test ends.
func serve(t testing.TB, c server.Coordinator) (addr string) {
	t.Helper()
	ln := listen(t, "127.0.0.1:0")
	t.Cleanup(serveOn(t, ln, c, server.Config{}))
	return "http://" + ln.Addr().String()
}

// serveOn runs a server for c on ln until stop is called.
func serveOn(t testing.TB, ln net.Listener, c server.Coordinator, cfg server.Config) (stop func()) {
	t.Helper()
	cfg.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	s, err := server.New(cfg, c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, ln) }()
	return sync.OnceFunc(func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, net.ErrClosed) { // closed by a test
			t.Errorf("serve: %v", err)
		}
	})
}

// listener keeps its connections, so that a test can cut them.
type listener struct {
	net.Listener

	mu    sync.Mutex
	conns []net.Conn
}

func listen(t testing.TB, addr string) *listener {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return &listener{Listener: ln}
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.mu.Lock()
		l.conns = append(l.conns, c)
		l.mu.Unlock()
	}
	return c, err
}

// cut closes every connection abruptly.
func (l *listener) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		_ = c.Close()
	}
	l.conns = nil
}

// open makes a client that is closed when the test ends, before the server.
func open(t testing.TB, cfg client.Config) *client.Client {
	t.Helper()
	c, err := client.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}

// eachTransport runs a test over both transports.
func eachTransport(t *testing.T, test func(t *testing.T, cfg client.Config)) {
	t.Run("pipe", func(t *testing.T) { test(t, client.Config{}) })
	t.Run("unary", func(t *testing.T) { test(t, client.Config{Unary: true}) })
}

func newID(n byte) txn.ID { return txn.NewID(time.Unix(1700000000, 0), [9]byte{7: n}) }

// soon is a context for calls that are expected to fail.
func soon(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}
