package server_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/api/txmgr/v1/txmgrv1connect"
	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/server"
	"github.com/txmgr/txmgr/server/servertest"
	"github.com/txmgr/txmgr/txn"
)

// follower starts a server whose coordinator follows the leader at api. Only node-local calls
// may reach that coordinator.
func follower(t *testing.T, api string, prepare func(*server.Config, *servertest.Fake)) *running {
	t.Helper()
	return start(t, func(c *server.Config, f *servertest.Fake) {
		f.SetLeader(api, false)
		f.Before = func(_ context.Context, op string, _ txn.ID) error {
			if op != "status" && op != "list participants" && op != "list tokens" { // used by the metrics
				t.Errorf("%s reached the node that does not lead", op)
			}
			return nil
		}
		if prepare != nil {
			prepare(c, f)
		}
	})
}

// A client cannot distinguish a node that forwards its calls from the leader, except by the
// header that names the leader.
func TestForwardedCallsAnswerAlike(t *testing.T) {
	leader, alone := start(t, nil), start(t, nil)
	there := follower(t, leader.base, nil)
	for _, s := range []struct{ method, body string }{
		{"Begin", `{"id":"` + id1 + `","branches":[{"participant":"bank"}]}`},
		{"Begin", `{"id":"` + id2 + `"}`},
		{"Begin", `{"id":"x"}`},
		{"Begin", `{"timeot":"1s"}`},
		{"Commit", `{"id":"` + id1 + `","votes":[{"branch":"b1","vote":"prepared"}]}`},
		{"Rollback", `{"id":"` + id2 + `"}`},
		{"Commit", begin(id2)},
		{"Get", begin(id1)},
		{"Get", begin(id3)},
		{"List", `{}`},
		{"Wait", `{"id":"` + id1 + `","goal":"decided"}`},
		{"Wait", `{"id":"` + id1 + `","timeout":"10ms"}`},
		{"InDoubtService/Scan", `{}`},
		{"InDoubtService/List", `{}`},
		{"ParticipantService/List", `{}`},
		{"ParticipantService/Pools", `{}`},
		{"ParticipantService/Add", `{"name":"web","kind":"web"}`},
		{"InDoubtService/Audit", `{}`},
		{"TimeoutService/Groups", `{}`},
		{"ClusterService/Join", `{"address":"127.0.0.1:1"}`},
		{"ClusterService/Remove", `{"node":"n2","reason":"x"}`},
		{"ClusterService/Resume", `{"reason":"x"}`},
		{"TokenService/List", `{}`},
		{"NoService/None", `{}`},
	} {
		want, got := alone.curl(s.method, s.body), there.curl(s.method, s.body)
		if diff := cmp.Diff(want.body, got.body); diff != "" || want.status != got.status {
			t.Errorf("%s: %d and %d\n%s", s.method, want.status, got.status, diff)
		}
		for _, a := range []answer{want, got} {
			a.header.Del("Date")
		}
		if s.method != "NoService/None" {
			if l := got.header.Get("Txmgr-Leader"); l != leader.base {
				t.Errorf("%s: the leader is %q", s.method, l)
			}
			got.header.Del("Txmgr-Leader")
		}
		if diff := cmp.Diff(want.header, got.header); diff != "" {
			t.Errorf("%s:\n%s", s.method, diff)
		}
	}
	message := "?encoding=json&message=" + url.QueryEscape(begin(id1))
	if a := there.get("/txmgr.v1.TransactionService/Get" + message); a.status != http.StatusOK || !strings.Contains(a.body, "committing") {
		t.Errorf("with GET: %d %s", a.status, a.body)
	}
	if a := there.get("/txmgr.v1.TransactionService/Commit" + message); a.status != http.StatusMethodNotAllowed {
		t.Errorf("with GET: %d %s", a.status, a.body)
	}
	a := there.get("/metrics")
	for _, want := range []string{"txmgr_forwarded_total{outcome=\"answered\"} 25\n", "txmgr_leader 0\n", `txmgr_rpc_duration_seconds_count{code="ROLLED_BACK",method="Commit"} 1`} {
		if !strings.Contains(a.body, want) {
			t.Errorf("no %s in\n%s", want, a.body)
		}
	}
}

// Calls that concern the node itself are answered by it.
func TestLocalCallsAreNotForwarded(t *testing.T) {
	there := follower(t, "http://127.0.0.1:1", func(_ *server.Config, f *servertest.Fake) { f.Before = nil })
	if a := there.curl("ClusterService/Status", `{}`); a.status != http.StatusOK || !strings.Contains(a.body, `"leader":false`) || a.header.Get("Txmgr-Leader") == "" {
		t.Errorf("status: %d %s", a.status, a.body)
	}
	if a := there.curl("ClusterService/Leave", `{}`); a.header.Get("Txmgr-Code") != "CONFLICT" {
		t.Errorf("leave: %d %s", a.status, a.body)
	}
	if a := there.get("/readyz"); a.status != http.StatusOK || !strings.Contains(a.body, "[+]leader ok: calls are passed on to http://127.0.0.1:1\n") {
		t.Errorf("readyz: %d %s", a.status, a.body)
	}
	there.fake.SetLeader("", false)
	if a := there.curl("Get", begin(id1)); a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") != "1" || !strings.Contains(a.body, "does not lead") {
		t.Errorf("no leader: %d %v %s", a.status, a.header, a.body)
	}
}

// Any node may answer reads if the client allows it, and only reads.
func TestStaleReads(t *testing.T) {
	leader := start(t, nil)
	stale := make(chan string, 100)
	there := follower(t, leader.base, func(_ *server.Config, f *servertest.Fake) {
		f.Before = func(ctx context.Context, op string, _ txn.ID) error {
			if !txn.StaleAllowed(ctx) {
				t.Errorf("%s is not allowed to be stale", op)
			}
			stale <- op
			return nil
		}
	})
	there.curl("Begin", begin(id2)) // the node reads its own name once
	for len(stale) > 0 {
		<-stale
	}
	there.header = http.Header{"Txmgr-Stale": {"true"}}
	for _, method := range []string{"Get", "List", "TimeoutService/Groups", "InDoubtService/List", "InDoubtService/Audit", "ParticipantService/List"} {
		body := `{}`
		if method == "Get" {
			body = begin(id1)
		}
		a := there.curl(method, body)
		if method != "Get" && a.status != http.StatusOK || a.header.Get("Txmgr-Leader") != leader.base {
			t.Errorf("%s: %d %s", method, a.status, a.body)
		}
		<-stale
	}
	for _, method := range []string{"Begin", "Rollback", "InDoubtService/Explain", "Wait"} {
		if a := there.curl(method, `{"id":"`+id1+`"}`); a.status != http.StatusOK {
			t.Errorf("%s: %d %s", method, a.status, a.body)
		}
	}
	select {
	case op := <-stale:
		t.Errorf("%s was answered by the node that does not lead", op)
	default:
	}
}

// A call does not loop between two nodes that take each other for the leader, nor at a node
// that takes itself for another one.
func TestForwardingEnds(t *testing.T) {
	a := follower(t, "", nil)
	b := follower(t, a.base, nil)
	a.fake.SetLeader(b.base, false)
	for _, r := range []*running{a, b} {
		if a := r.curl("Commit", begin(id1)); a.header.Get("Txmgr-Code") != "UNAVAILABLE" || !strings.Contains(a.body, "passed the call on") {
			t.Errorf("%d %v %s", a.status, a.header, a.body)
		}
	}
	a.fake.SetLeader(a.base, false)
	if a := a.curl("Commit", begin(id1)); a.header.Get("Txmgr-Code") != "UNAVAILABLE" {
		t.Errorf("to itself: %d %s", a.status, a.body)
	}
}

// vanishing is a node that accepts calls and disconnects without an answer.
func vanishing(t *testing.T, say string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	s := &http.Server{Protocols: protocols, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		said := say
		if strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") && say != "" {
			said = "\x00\x00\x00\x00\x09half"
		}
		if said != "" {
			w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
			_, _ = w.Write([]byte(said))
			_ = http.NewResponseController(w).Flush()
		}
		panic(http.ErrAbortHandler)
	})}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		_ = s.Close()
		<-served
	})
	return "http://" + ln.Addr().String()
}

// A call with a lost answer is in doubt if it may have decided, and only then.
func TestLostAnswers(t *testing.T) {
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, api, commit, get string }{
		{"nobody there", "http://" + gone.Addr().String(), "UNAVAILABLE", "UNAVAILABLE"},
		{"no URL", "nowhere", "UNAVAILABLE", "UNAVAILABLE"},
		{"no answer", vanishing(t, ""), "IN_DOUBT", "UNAVAILABLE"},
		{"half an answer", vanishing(t, `{"state":`), "IN_DOUBT", "UNAVAILABLE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			there := follower(t, c.api, nil)
			for method, want := range map[string]string{"Commit": c.commit, "Vote": c.commit, "Delegate": c.commit, "Get": c.get, "Rollback": c.get} {
				a := there.curl(method, begin(id1))
				if a.header.Get("Txmgr-Code") != want || !strings.Contains(a.body, want) && !strings.Contains(a.body, `"code":"un`) {
					t.Errorf("%s: %d %v %s", method, a.status, a.header, a.body)
				}
				// A time after which to retry states that nothing was done.
				if undone := a.header.Get("Retry-After") != "" || strings.Contains(a.body, `"retry_after"`); undone != (c.commit == "UNAVAILABLE") {
					t.Errorf("%s: %v %s", method, a.header, a.body)
				}
			}
			for _, o := range []connect.ClientOption{connect.WithGRPC(), connect.WithGRPCWeb(), connect.WithProtoJSON()} {
				client := txmgrv1connect.NewTransactionServiceClient(h2(t), there.base, o)
				_, err := client.Commit(context.Background(), &txmgrv1.CommitRequest{Id: id1})
				if got := txn.CodeOf(wire.FromConnect(err)); string(got) != c.commit {
					t.Errorf("%T: %v", o, err)
				}
				_, err = client.Get(context.Background(), &txmgrv1.GetRequest{Id: id1})
				if got := txn.CodeOf(wire.FromConnect(err)); string(got) != c.get {
					t.Errorf("%T: %v", o, err)
				}
			}
		})
	}
}

// The leader hangs, and another node is elected: clients that wait get an error at once, not
// at the end of their timeout.
func TestHangingLeaderIsLeft(t *testing.T) {
	var entered chan txn.ID
	var release func()
	leader := start(t, func(_ *server.Config, f *servertest.Fake) { entered, release = hold(f, "commit") })
	defer release()
	there := follower(t, leader.base, nil)
	there.curl("Begin", begin(id1))
	answered := make(chan answer)
	go func() { answered <- there.curl("Commit", begin(id1)) }()
	<-entered
	there.fake.SetLeader("http://127.0.0.1:1", false)
	started := time.Now()
	if a := <-answered; a.header.Get("Txmgr-Code") != "IN_DOUBT" || time.Since(started) > 5*time.Second {
		t.Errorf("%d %s after %v", a.status, a.body, time.Since(started))
	}
}

// A forwarded call ends when its client disconnects.
func TestForwardedCallEndsWithItsCaller(t *testing.T) {
	ended := make(chan struct{})
	entered := make(chan struct{})
	leader := start(t, func(_ *server.Config, f *servertest.Fake) {
		f.Before = func(ctx context.Context, op string, _ txn.ID) error {
			if op == "wait" {
				close(entered)
				<-ctx.Done()
				close(ended)
			}
			return ctx.Err()
		}
	})
	there := follower(t, leader.base, nil)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-entered
		cancel()
	}()
	_, err := txmgrv1connect.NewTransactionServiceClient(h2(t), there.base).Wait(ctx, &txmgrv1.WaitRequest{Id: id1})
	if connect.CodeOf(err) != connect.CodeCanceled {
		t.Errorf("%v", err)
	}
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("the call goes on")
	}
}

// The client's timeout is forwarded with the call, in every form.
func TestForwardedDeadlines(t *testing.T) {
	left := make(chan time.Duration, 1)
	leader := start(t, func(_ *server.Config, f *servertest.Fake) {
		f.Before = func(ctx context.Context, _ string, _ txn.ID) error {
			until, _ := ctx.Deadline()
			left <- time.Until(until)
			return nil
		}
	})
	there := follower(t, leader.base, nil)
	for _, o := range []connect.ClientOption{connect.WithGRPC(), connect.WithGRPCWeb(), connect.WithProtoJSON()} {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		_, err := txmgrv1connect.NewTransactionServiceClient(h2(t), there.base, o).List(ctx, &txmgrv1.Filter{})
		cancel()
		if got := <-left; err != nil || got > 3*time.Second || got < 2*time.Second {
			t.Errorf("%v left, %v", got, err)
		}
	}
}

// Large requests and responses are forwarded completely.
func TestForwardedSizes(t *testing.T) {
	leader := start(t, nil)
	there := follower(t, leader.base, nil)
	labels := make([]string, 16)
	for i := range labels {
		labels[i] = fmt.Sprintf(`"k%d":"%s"`, i, strings.Repeat("v", 120))
	}
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 150 {
				id := txn.NewID(time.Unix(int64(i), 0), [9]byte{byte(w), 1})
				if a := leader.curl("Begin", `{"id":"`+id.String()+`","labels":{`+strings.Join(labels, ",")+`}}`); a.status != http.StatusOK {
					t.Errorf("%d %s", a.status, a.body)
				}
			}
		})
	}
	wg.Wait()
	want, got := leader.curl("List", `{}`), there.curl("List", `{}`)
	if len(want.body) < 1<<20 || want.body != got.body {
		t.Errorf("%d and %d bytes", len(want.body), len(got.body))
	}
	for _, o := range []connect.ClientOption{connect.WithGRPC(), connect.WithGRPCWeb()} {
		res, err := txmgrv1connect.NewTransactionServiceClient(h2(t), there.base, o).List(context.Background(), &txmgrv1.Filter{})
		if err != nil || len(res.GetTransactions()) != 600 {
			t.Errorf("%d, %v", len(res.GetTransactions()), err)
		}
	}
	if a := there.curl("Begin", `{"name":"`+strings.Repeat("x", 1<<20)+`"}`); a.header.Get("Txmgr-Code") != "USAGE" {
		t.Errorf("%d %.200s", a.status, a.body)
	}
}

// Limits also apply to forwarded calls.
func TestForwardedCallsAreLimited(t *testing.T) {
	var entered chan txn.ID
	var release func()
	leader := start(t, func(_ *server.Config, f *servertest.Fake) { entered, release = hold(f, "get") })
	there := follower(t, leader.base, func(c *server.Config, _ *servertest.Fake) { c.MaxRequests, c.ReadTimeout = 1, 100*time.Millisecond })
	there.curl("Begin", begin(id1))
	done := make(chan answer)
	go func() { done <- there.curl("Get", begin(id1)) }()
	<-entered
	if a := there.curl("Get", begin(id1)); a.header.Get("Txmgr-Code") != "UNAVAILABLE" || !strings.Contains(a.body, "1 calls of this kind") {
		t.Errorf("%d %s", a.status, a.body)
	}
	release()
	if a := <-done; a.status != http.StatusOK {
		t.Errorf("%d %s", a.status, a.body)
	}
	// A slow client occupies nothing on the leader.
	c := dial(t, there.addr)
	if _, err := fmt.Fprint(c, "POST /txmgr.v1.TransactionService/Begin HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 20\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 4096)
	if n, err := c.Read(said); err != nil || !strings.Contains(string(said[:n]), "Txmgr-Code: USAGE") {
		t.Errorf("%v: %s", err, said[:n])
	}
}

func unavailable(err error) bool { return errors.Is(wire.FromConnect(err), txn.ErrUnavailable) }
