package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/txmgr/txmgr/internal/asynclog"
	"github.com/txmgr/txmgr/server"
	"github.com/txmgr/txmgr/server/servertest"
	"github.com/txmgr/txmgr/txn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// id1 is the transaction that tests begin.
const id1 = "tx_01k9x3v7h2m8qf4r6t0bz5n1de"

// running is a server under test.
type running struct {
	t    *testing.T
	base string
	addr string
	fake *servertest.Fake
	log  *buffer
	http *http.Client // HTTP/1.1
	stop func() error // begins to stop and waits for the end

	header http.Header // of every request
}

// buffer is a log that may be read while it is written.
type buffer struct {
	logger *slog.Logger // writes into it
	mu     sync.Mutex
	b      bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	asynclog.Flush(b.logger)
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// start serves a fake on a free port. prepare may change both first.
func start(t *testing.T, prepare func(*server.Config, *servertest.Fake)) *running {
	t.Helper()
	var cfg server.Config
	fake := servertest.New()
	if prepare != nil {
		prepare(&cfg, fake)
	}
	r := serving(t, fake, cfg)
	r.fake = fake
	return r
}

// serving serves a coordinator on a free port.
func serving(t *testing.T, c server.Coordinator, cfg server.Config) *running {
	t.Helper()
	r := &running{t: t, log: &buffer{}}
	cfg.Listen = "127.0.0.1:0"
	r.log.logger = asynclog.Wrap(slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	cfg.Log = r.log.logger
	s, err := server.New(cfg, c)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := s.Listen()
	if err != nil {
		t.Fatal(err)
	}
	r.addr = ln.Addr().String()
	r.base = "http://" + r.addr
	transport := &http.Transport{}
	r.http = &http.Client{Transport: transport, Timeout: 20 * time.Second}

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, ln) }()
	r.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := r.stop(); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return r
}

// answer is a response as curl shows it.
type answer struct {
	status int
	header http.Header
	body   string
}

// object reads the body.
func (a answer) object(t *testing.T) (v map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.body), &v); err != nil {
		t.Fatalf("%v: %q", err, a.body)
	}
	return v
}

// curl is curl -H 'Content-Type: application/json' -d body.
func (r *running) curl(method, body string) answer {
	r.t.Helper()
	return r.post(method, "application/json", strings.NewReader(body))
}

func (r *running) post(method, contentType string, body io.Reader) answer {
	r.t.Helper()
	if !strings.Contains(method, "/") {
		method = "TransactionService/" + method
	}
	req, err := http.NewRequest(http.MethodPost, r.base+"/txmgr.v1."+method, body)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	return r.do(req)
}

func (r *running) get(path string) answer {
	r.t.Helper()
	req, err := http.NewRequest(http.MethodGet, r.base+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.do(req)
}

func (r *running) do(req *http.Request) answer {
	r.t.Helper()
	a, err := r.try(req)
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

func (r *running) try(req *http.Request) (answer, error) {
	for k, vs := range r.header {
		req.Header[k] = vs
	}
	res, err := r.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, string(body)}, err
}

// eventually polls until ok or the test has waited long enough.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(10 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s: not within 10s", what)
		}
	}
}

// hold makes calls of op wait: entered gets one value for each call that has come, release
// lets all of them continue.
func hold(f *servertest.Fake, op string) (entered chan txn.ID, release func()) {
	entered, gate := make(chan txn.ID, 1<<16), make(chan struct{})
	f.Before = func(ctx context.Context, got string, id txn.ID) error {
		if got != op {
			return nil
		}
		entered <- id
		select {
		case <-gate:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return entered, sync.OnceFunc(func() { close(gate) })
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(15 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

func begin(id string) string { return fmt.Sprintf(`{"id":%q}`, id) }

func contains(s, what string) bool { return strings.Contains(s, what) }
