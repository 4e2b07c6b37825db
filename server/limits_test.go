package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/txmgr/txmgr/server"
	"github.com/txmgr/txmgr/server/servertest"
	"github.com/txmgr/txmgr/txn"
)

// Invariant 1: a call above the limit is refused before it reaches the coordinator, with a
// time after which to retry.
func TestOverloadIsShed(t *testing.T) {
	var entered chan txn.ID
	var release func()
	r := start(t, func(c *server.Config, f *servertest.Fake) {
		c.MaxRequests = 2
		entered, release = hold(f, "commit")
	})
	r.curl("Begin", begin(id1))
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if a := r.curl("Commit", begin(id1)); a.status != http.StatusOK {
				t.Errorf("admitted: %d %s", a.status, a.body)
			}
		})
	}
	<-entered
	<-entered
	a := r.curl("Commit", begin(id1))
	if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") != "1" || a.header.Get("Txmgr-Code") != "UNAVAILABLE" ||
		!strings.Contains(a.body, "2 calls of this kind are running") {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
	if a := r.get("/readyz"); a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, "[-]load failed") {
		t.Errorf("readyz: %d %s", a.status, a.body)
	}
	if a := r.get("/metrics"); !strings.Contains(a.body, "txmgr_rpc_requests_running 2") || !strings.Contains(a.body, `txmgr_rpc_duration_seconds_count{code="UNAVAILABLE",method="Commit"} 1`) {
		t.Error("metrics do not say so")
	}
	release()
	wg.Wait()
	select {
	case <-entered:
		t.Error("the call that was shed reached the coordinator")
	default:
	}
	if a := r.curl("Commit", begin(id1)); a.status != http.StatusOK {
		t.Errorf("afterwards: %d %s", a.status, a.body)
	}
}

func TestTooManyStreamsAreShed(t *testing.T) {
	var entered chan txn.ID
	var release func()
	r := start(t, func(c *server.Config, f *servertest.Fake) {
		c.MaxStreams = 1
		entered, release = hold(f, "wait")
	})
	r.curl("Begin", begin(id1))
	done := make(chan answer)
	go func() { done <- r.curl("Wait", begin(id1)) }()
	<-entered
	if a := r.curl("Wait", begin(id1)); a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := r.curl("Get", begin(id1)); a.status != http.StatusOK {
		t.Errorf("waits and calls share a limit: %d %s", a.status, a.body)
	}
	release()
	r.curl("Rollback", begin(id1))
	if a := <-done; a.status != http.StatusOK {
		t.Errorf("admitted: %d %s", a.status, a.body)
	}
}

// Calls that fan out to participants have a limit of their own, do not use up that of the
// others, and are ended by a stop.
func TestAskingIsLimited(t *testing.T) {
	var entered chan txn.ID
	var release func()
	r := start(t, func(c *server.Config, f *servertest.Fake) {
		c.MaxFanoutCalls, c.MaxRequests = 1, 1
		entered, release = hold(f, "doctor")
	})
	defer release()
	done := make(chan answer)
	go func() { done <- r.curl("ClusterService/Doctor", `{}`) }()
	<-entered
	if a := r.curl("ClusterService/Doctor", `{}`); a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") != "1" || !strings.Contains(a.body, "1 calls of this kind") {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
	if a := r.curl("Begin", begin(id1)); a.status != http.StatusOK {
		t.Errorf("asks and calls share a limit: %d %s", a.status, a.body)
	}
	if a := r.get("/metrics"); !strings.Contains(a.body, "txmgr_rpc_requests_running 1\n") || !strings.Contains(a.body, `txmgr_rpc_duration_seconds_count{code="UNAVAILABLE",method="ClusterService.Doctor"} 1`) {
		t.Error("metrics do not say so")
	}
	if err := r.stop(); err != nil {
		t.Fatalf("stop: %v", err)
	}
	if a := <-done; a.header.Get("Txmgr-Code") != "UNAVAILABLE" {
		t.Errorf("at the stop: %d %v %s", a.status, a.header, a.body)
	}
}

// A reader cannot keep others from deciding, however many calls it makes.
func TestReadersLeaveRoom(t *testing.T) {
	held := make(chan string, 10)
	gate := make(chan struct{})
	r := start(t, func(c *server.Config, f *servertest.Fake) {
		c.MaxStreams, c.MaxFanoutCalls, c.MaxRequests = 1, 1, 1
		f.Before = func(ctx context.Context, op string, _ txn.ID) error {
			if op == "list" || op == "wait" || op == "doctor" {
				held <- op
				select {
				case <-gate:
				case <-ctx.Done():
				}
			}
			return nil
		}
	})
	r.curl("Begin", begin(id1))
	done := make(chan answer, 3)
	for method, body := range map[string]string{"List": `{}`, "Wait": begin(id1), "ClusterService/Doctor": `{}`} {
		go func() { done <- r.curl(method, body) }()
	}
	for range 3 {
		<-held
	}
	if a := r.curl("Get", begin(id1)); a.header.Get("Txmgr-Code") != "UNAVAILABLE" {
		t.Errorf("another look: %d %s", a.status, a.body)
	}
	if a := r.curl("Commit", begin(id1)); a.status != http.StatusOK {
		t.Errorf("commit: %d %s", a.status, a.body)
	}
	if a := r.curl("InDoubtService/Scan", `{}`); a.status != http.StatusOK {
		t.Errorf("scan: %d %s", a.status, a.body)
	}
	p := openPipe(t, r)
	send(t, p, getOf(1, parseID(t, id1)))
	if got := receive(t, p, 1)[1]; got.GetGet().GetState() != "committed" {
		t.Errorf("pipe: %v", got)
	}
	if a := r.get("/readyz"); a.status != http.StatusOK {
		t.Errorf("readyz: %d %s", a.status, a.body)
	}
	if a := r.get("/metrics"); !strings.Contains(a.body, "txmgr_rpc_requests_running 2\n") || !strings.Contains(a.body, "txmgr_rpc_streams_running 2\n") {
		t.Error("metrics do not say so")
	}
	close(gate)
	for range 3 {
		<-done
	}
}

// A list may be long; many long lists at once are refused.
func TestListsAreLimited(t *testing.T) {
	entered, gate := make(chan struct{}, 10), make(chan struct{})
	r := start(t, func(_ *server.Config, f *servertest.Fake) {
		f.Before = func(_ context.Context, op string, _ txn.ID) error {
			if op == "list" {
				entered <- struct{}{}
				<-gate
			}
			return nil
		}
	})
	done := make(chan answer, 5)
	for range 2 {
		go func() { done <- r.curl("List", `{"limit":1000000}`) }()
	}
	<-entered
	<-entered
	if a := r.curl("List", `{"limit":1}`); a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" || !strings.Contains(a.body, "a shorter one") {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
	close(gate)
	for range 3 {
		go func() { done <- r.curl("List", `{}`) }()
	}
	for range 5 {
		if a := <-done; a.status != http.StatusOK {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
}

// A client that sends headers, or a body, a byte at a time cannot keep its connection, on any
// route, and whether or not the body is read.
func TestSlowCallersAreLeft(t *testing.T) {
	short := func(c *server.Config, _ *servertest.Fake) { c.ReadTimeout = 100 * time.Millisecond }
	open := start(t, short)
	closed := start(t, func(c *server.Config, f *servertest.Fake) {
		short(c, f)
		c.Auth = true
	})
	const begins = "POST /txmgr.v1.TransactionService/Begin HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	const slowly = "Content-Length: 20\r\n\r\n{"
	for name, c := range map[string]struct {
		r    *running
		sent string
	}{
		"headers":   {open, begins + "X-Slow: "},
		"body":      {open, begins + slowly},
		"chunks":    {open, begins + "Transfer-Encoding: chunked\r\n\r\n5\r\n{"},
		"denied":    {closed, begins + slowly},
		"metrics":   {closed, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n" + slowly},
		"health":    {closed, "GET /livez HTTP/1.1\r\nHost: localhost\r\n" + slowly},
		"nowhere":   {open, "POST /nowhere HTTP/1.1\r\nHost: localhost\r\n" + slowly},
		"elsewhere": {open, begins + "Origin: https://elsewhere.example\r\n" + slowly},
		"large":     {open, begins + "Content-Length: 100000000\r\n\r\n{"},
		"a Pipe":    {open, "POST /txmgr.v1.TransactionService/Pipeline HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/connect+json\r\n" + slowly},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := dial(t, c.r.addr)
			if _, err := io.WriteString(conn, c.sent); err != nil {
				t.Fatal(err)
			}
			// Closed by the server, with or without a response, before our deadline.
			said, err := io.ReadAll(conn)
			if err != nil {
				t.Errorf("still open: %v; said %q", err, said)
			}
			if name != "headers" && !strings.HasPrefix(string(said), "HTTP/1.1 ") {
				t.Errorf("said %q", said)
			}
		})
	}
}

// The deadline for the body is not one for the call.
func TestSlowCallsAreNotLeft(t *testing.T) {
	r := start(t, func(c *server.Config, _ *servertest.Fake) { c.ReadTimeout = 50 * time.Millisecond })
	r.curl("Begin", begin(id1))
	waited := make(chan answer, 2)
	go func() { waited <- r.curl("Wait", begin(id1)) }()
	go func() {
		waited <- r.get("/txmgr.v1.TransactionService/Wait?encoding=json&message=" + url.QueryEscape(begin(id1)))
	}()
	started := time.Now()
	if a := r.curl("Wait", `{"id":"`+id1+`","timeout":"300ms"}`); a.status != http.StatusGatewayTimeout || time.Since(started) < 300*time.Millisecond {
		t.Errorf("%d %s after %v", a.status, a.body, time.Since(started))
	}
	r.curl("Commit", begin(id1))
	for range 2 {
		if a := <-waited; a.status != http.StatusOK {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
}

func TestHeadersAreLimited(t *testing.T) {
	r := start(t, nil)
	req, err := http.NewRequest(http.MethodGet, r.base+"/livez", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Large", strings.Repeat("x", 64<<10))
	if a, err := r.try(req); err == nil && a.status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("%d", a.status)
	}
}

// A call has the deadline that its client sent, within limits.
func TestDeadlines(t *testing.T) {
	left := make(chan time.Duration, 1)
	r := start(t, func(c *server.Config, f *servertest.Fake) {
		c.CallTimeout, c.MaxCallTimeout, c.FanoutTimeout = 5*time.Second, 20*time.Second, 40*time.Second
		f.Before = func(ctx context.Context, op string, _ txn.ID) error {
			until, ok := ctx.Deadline()
			if !ok {
				return errors.New("no deadline")
			}
			left <- time.Until(until)
			return nil
		}
	})
	wait := func(timeout string) string { return `{"id":"` + id1 + `","timeout":"` + timeout + `"}` }
	for _, c := range []struct {
		method, body, header string
		want                 time.Duration
	}{
		{"List", `{}`, "", 5 * time.Second},
		{"List", `{}`, "2000", 2 * time.Second},
		{"List", `{}`, "9000000", 20 * time.Second},
		{"InDoubtService/Explain", begin(id1), "", 40 * time.Second},
		{"InDoubtService/Scan", `{}`, "9000000", 40 * time.Second},
		{"InDoubtService/Retry", begin(id1), "", 40 * time.Second},
		{"InDoubtService/Resolve", `{"id":"` + id1 + `","outcome":"committed","reason":"x"}`, "", 40 * time.Second},
		{"ClusterService/Doctor", `{}`, "", 40 * time.Second},
		{"ClusterService/Doctor", `{}`, "2000", 2 * time.Second},
		{"ParticipantService/Test", `{"name":"bank"}`, "", 40 * time.Second},
		{"InDoubtService/List", `{}`, "", 5 * time.Second},
		{"Wait", wait(""), "", 20 * time.Second},
		{"Wait", wait("3s"), "", 3 * time.Second},
		{"Wait", wait("1h"), "", 20 * time.Second},
		{"Wait", wait("10s"), "2000", 2 * time.Second},
	} {
		if !strings.Contains(c.method, "/") {
			c.method = "TransactionService/" + c.method
		}
		req, err := http.NewRequest(http.MethodPost, r.base+"/txmgr.v1."+c.method, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if c.header != "" {
			req.Header.Set("Connect-Timeout-Ms", c.header)
		}
		r.do(req)
		if got := <-left; got > c.want || got < c.want-time.Second {
			t.Errorf("%s %s, Connect-Timeout-Ms %q: %v left, want about %v", c.method, c.body, c.header, got, c.want)
		}
	}
}

// Invariant 4: a panic is one failed call, with a stack trace in the log and none in the
// response.
func TestPanicsAreContained(t *testing.T) {
	r := start(t, func(_ *server.Config, f *servertest.Fake) {
		f.Before = func(_ context.Context, op string, _ txn.ID) error {
			if op == "get" {
				panic("the secret of the house")
			}
			return nil
		}
	})
	a := r.curl("Get", begin(id1))
	if a.status != http.StatusInternalServerError || a.header.Get("Txmgr-Code") != "ERROR" || strings.Contains(a.body, "secret") || !strings.Contains(a.body, "internal error") {
		t.Errorf("%d %s", a.status, a.body)
	}
	if log := r.log.String(); !strings.Contains(log, "the secret of the house") || !strings.Contains(log, "limits_test.go") {
		t.Errorf("log: %s", log)
	}
	if a := r.get("/livez"); a.status != http.StatusOK {
		t.Errorf("afterwards: %d", a.status)
	}
}

// Invariant 5: without Insecure the server does not listen on a network unprotected.
func TestOnlyLoopbackUnlessInsecure(t *testing.T) {
	s, err := server.New(server.Config{Listen: "0.0.0.0:0"}, servertest.New())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Listen(); !errors.Is(err, txn.ErrDenied) || !strings.Contains(err.Error(), "Insecure") {
		t.Errorf("listen: %v", err)
	}
	ln, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(t.Context(), ln); !errors.Is(err, txn.ErrDenied) {
		t.Errorf("serve: %v", err)
	}
	if _, err := net.Dial("tcp", ln.Addr().String()); err == nil {
		t.Error("the listener was left open")
	}
	insecure, err := server.New(server.Config{Listen: "0.0.0.0:0", Insecure: true}, servertest.New())
	if err != nil {
		t.Fatal(err)
	}
	open, err := insecure.Listen()
	if err != nil {
		t.Fatalf("insecure: %v", err)
	}
	if err := open.Close(); err != nil {
		t.Error(err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	if _, err := server.New(server.Config{MaxBody: -1, IdleTimeout: -time.Second}, servertest.New()); !errors.Is(err, txn.ErrInvalid) ||
		!strings.Contains(err.Error(), "MaxBody") || !strings.Contains(err.Error(), "IdleTimeout") {
		t.Errorf("%v", err)
	}
	if _, err := server.New(server.Config{}, nil); !errors.Is(err, txn.ErrInvalid) {
		t.Errorf("%v", err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s, err := server.New(server.Config{Listen: taken.Addr().String()}, servertest.New())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Listen(); err == nil || !strings.Contains(err.Error(), "another txmgr") {
		t.Errorf("%v", err)
	}
}

// HTTP/1.1 pipelining and keep-alive survive calls of every kind on one
// connection: no deadline of one call is left for the next.
func TestOneConnectionServesManyCalls(t *testing.T) {
	r := start(t, func(c *server.Config, _ *servertest.Fake) { c.ReadTimeout = 150 * time.Millisecond })
	c := dial(t, r.addr)
	answers := bufio.NewReader(c)
	for i := range 3 {
		body := begin(id1)
		if i > 0 {
			body = `{"id":"` + id1 + `","timeout":"200ms"}`
		}
		method := []string{"Begin", "Wait", "Extend"}[i]
		if _, err := fmt.Fprintf(c, "POST /txmgr.v1.TransactionService/%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", method, len(body), body); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatalf("%s: %v", method, err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Fatal(err)
		}
		if want := []int{200, 504, 200}[i]; res.StatusCode != want {
			t.Errorf("%s: %d", method, res.StatusCode)
		}
	}
}
