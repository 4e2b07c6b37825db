package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/api/txmgr/v1/txmgrv1connect"
	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/server"
	"github.com/txmgr/txmgr/server/servertest"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

const rootSecret = "0123456789abcdef-of-the-root"

// rootFile makes a root token file.
func rootFile(t *testing.T, secret string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "root")
	if err := os.WriteFile(path, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// startWithAuth starts a server that requires tokens.
func startWithAuth(t *testing.T, prepare func(*server.Config, *servertest.Fake)) *running {
	t.Helper()
	return start(t, func(c *server.Config, f *servertest.Fake) {
		c.RootTokenFile = rootFile(t, rootSecret)
		if prepare != nil {
			prepare(c, f)
		}
	})
}

// as sends a token with every request from now on.
func (r *running) as(secret string) *running {
	r.header = http.Header{"Authorization": {"Bearer " + secret}}
	return r
}

// token creates a token at the fake directly, not through the server.
func (r *running) token(q admin.TokenRequest) (admin.Token, string) {
	r.t.Helper()
	made, secret, err := r.fake.CreateToken(context.Background(), q)
	if err != nil {
		r.t.Fatal(err)
	}
	return made, secret
}

// Every existing route has a role, and every role is for an existing route.
func TestEveryRouteHasARole(t *testing.T) {
	s, err := server.New(server.Config{}, servertest.New())
	if err != nil {
		t.Fatal(err)
	}
	routes := s.Routes()
	for path, role := range routes {
		if role < admin.RoleReader || role > admin.RoleAdmin {
			t.Errorf("%s has no role", path)
		}
	}
	for _, path := range server.Listed() {
		if _, ok := routes[path]; !ok {
			t.Errorf("%s is listed and does not exist", path)
		}
	}
	if len(routes) < 39 {
		t.Errorf("only %d routes", len(routes))
	}
}

// A token with a role may make the calls of that role, on every route, and no others; without
// a token, or with a wrong one, every call is rejected.
func TestEveryRouteForEveryRole(t *testing.T) {
	open := false
	var reached atomic.Int64
	r := startWithAuth(t, func(c *server.Config, f *servertest.Fake) {
		f.Before = func(context.Context, string, txn.ID) error {
			if open {
				return nil
			}
			reached.Add(1)
			return txn.ErrInvalid // the call must do and wait for nothing
		}
	})
	ask := func(path, secret string) answer {
		method := http.MethodPost
		if path == "/metrics" {
			method = http.MethodGet
		}
		req, err := http.NewRequest(method, r.base+path, strings.NewReader(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if secret != "" {
			req.Header.Set("Authorization", "Bearer "+secret)
		}
		return r.do(req)
	}
	secrets := make(map[admin.Role]string)
	open = true
	for role := admin.RoleReader; role <= admin.RoleAdmin; role++ {
		_, secrets[role] = r.token(admin.TokenRequest{Name: "a " + role.String(), Role: role})
	}
	open = false
	s, err := server.New(server.Config{}, servertest.New())
	if err != nil {
		t.Fatal(err)
	}
	routes := s.Routes()
	for _, path := range slices.Sorted(maps.Keys(routes)) {
		for role, secret := range secrets {
			a := ask(path, secret)
			if denied := a.status == http.StatusForbidden; denied != (role < routes[path]) || a.status == http.StatusUnauthorized {
				t.Errorf("%s as %v: %d %s", path, role, a.status, a.body)
			} else if denied && (a.header.Get("Txmgr-Code") != "DENIED" || !strings.Contains(a.body, "needs a token of role "+routes[path].String())) {
				t.Errorf("%s as %v: %v %s", path, role, a.header, a.body)
			}
		}
		if a := ask(path, rootSecret); a.status == http.StatusForbidden || a.status == http.StatusUnauthorized {
			t.Errorf("%s as root: %d %s", path, a.status, a.body)
		}
		was := reached.Load()
		if a := ask(path, ""); a.status != http.StatusUnauthorized || a.header.Get("Txmgr-Code") != "DENIED" || a.header.Get("Www-Authenticate") != "Bearer" {
			t.Errorf("%s as nobody: %d %v %s", path, a.status, a.header, a.body)
		}
		if a := ask(path, "txm_aaaaaaaa_wrong"); a.status != http.StatusUnauthorized && a.status != http.StatusTooManyRequests || a.header.Get("Txmgr-Code") != "DENIED" {
			t.Errorf("%s as a stranger: %d %s", path, a.status, a.body)
		}
		if reached.Load() != was {
			t.Errorf("%s: what was denied reached the coordinator", path)
		}
	}
	if reached.Load() == 0 {
		t.Error("nobody reached the coordinator")
	}
}

// Health needs no authentication.
func TestHealthNeedsNoToken(t *testing.T) {
	r := startWithAuth(t, nil)
	for _, path := range []string{"/livez", "/healthz", "/readyz"} {
		if a := r.get(path); a.status != http.StatusOK {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if a := r.get("/metrics"); a.status != http.StatusUnauthorized || strings.Contains(a.body, "txmgr_transactions_undecided") {
		t.Errorf("metrics: %d %s", a.status, a.body)
	}
}

// Tokens are created, listed without their secrets, and revoked; the audit log names the
// token that did so, whatever the client claims.
func TestTokensWithCurl(t *testing.T) {
	r := startWithAuth(t, nil)
	r.as(rootSecret)
	a := r.curl("TokenService/Create", `{"name":"ops","role":"operator","rate":100,"ttl":"1h","by":"somebody else","reason":"for the shop"}`)
	made := a.object(t)
	secret, _ := made["secret"].(string)
	if a.status != http.StatusOK || !strings.HasPrefix(secret, "txm_") {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if a := r.curl("TokenService/List", `{}`); !strings.Contains(a.body, `"name":"ops","role":"operator","rate":100,"created":"2026-01-02T03:04:05Z","expires":"2026-01-02T04:04:05Z","by":"root"}`) || strings.Contains(a.body, secret) {
		t.Errorf("%s", a.body)
	}
	r.as(secret)
	r.curl("Begin", begin(id1))
	if a := r.curl("InDoubtService/Resolve", `{"id":"`+id1+`","outcome":"rolled-back","reason":"x","by":"ann"}`); a.status != http.StatusOK {
		t.Errorf("%d %s", a.status, a.body)
	}
	r.as(rootSecret)
	r.curl("ClusterService/Join", `{"address":"127.0.0.1:1","by":"ann","reason":"one more"}`)
	r.curl("ClusterService/TransferLeader", `{"node":"n2","by":"ann","reason":"maintenance"}`)
	r.curl("ClusterService/Leave", `{"by":"ann","reason":"moves out"}`)
	r.curl("ClusterService/Remove", `{"node":"n2","reason":"x","by":"ann"}`)
	r.fake.SetRecoveryPaused(true)
	r.curl("ClusterService/Resume", `{"reason":"x","by":"ann"}`)
	r.curl("ParticipantService/Add", `{"name":"shelf","kind":"ledger","settings":{"path":"/x"},"by":"ann"}`)
	r.curl("ParticipantService/Remove", `{"name":"shelf","reason":"not used","by":"ann"}`)
	if a := r.curl("TokenService/Revoke", `{"token":"ops","reason":"gone","by":"ann"}`); a.status != http.StatusOK {
		t.Errorf("%d %s", a.status, a.body)
	}
	a = r.curl("InDoubtService/Audit", `{}`)
	records := a.object(t)["records"].([]any)
	for _, want := range [][3]string{
		{"token-add", "root", "for the shop"},
		{"resolve", "ops", "x"},
		{"member-add", "root", "one more"},
		{"leader-transfer-request", "root", "maintenance"},
		{"member-remove", "root", "moves out"},
		{"member-remove", "root", "x"},
		{"resume", "root", "x"},
		{"token-remove", "root", "gone"},
		{"participant-add", "root", ""},
		{"participant-remove", "root", "not used"},
	} {
		if !slices.ContainsFunc(records, func(record any) bool {
			r := record.(map[string]any)
			return r["action"] == want[0] && r["by"] == want[1] && r["reason"] == want[2]
		}) {
			t.Errorf("no %v in %s", want, a.body)
		}
	}
	r.as(secret)
	if a := r.curl("Get", begin(id1)); a.status != http.StatusUnauthorized {
		t.Errorf("revoked: %d %s", a.status, a.body)
	}
	for _, c := range []struct{ method, body, says string }{
		{"TokenService/Create", `{"role":"admin"}`, "name of a token"},
		{"TokenService/Create", `{"name":"x","role":"king"}`, "want reader"},
		{"TokenService/Revoke", `{"reason":"x"}`, "token is missing"},
		{"TokenService/Revoke", `{"token":"x"}`, "reason is missing"},
		{"ClusterService/Join", `{}`, "address is missing"},
		{"ClusterService/Remove", `{"reason":"x"}`, "node is missing"},
		{"ClusterService/Remove", `{"node":"n1"}`, "reason is missing"},
		{"ClusterService/Resume", `{}`, "reason is missing"},
		{"ParticipantService/Add", `{"name":"x","kind":"ledger","reason":"` + strings.Repeat("x", txn.MaxReason+1) + `"}`, "reason has 513 bytes"},
		{"ParticipantService/Remove", `{"name":"x","reason":"` + strings.Repeat("x", txn.MaxReason+1) + `"}`, "reason has 513 bytes"},
	} {
		if a := r.as(rootSecret).curl(c.method, c.body); a.status != http.StatusBadRequest || !strings.Contains(a.body, c.says) {
			t.Errorf("%s %s: %d %s", c.method, c.body, a.status, a.body)
		}
	}
}

// Rejected calls are in the log and the metrics, with token, address and reason, and without
// the secret.
func TestDenialsAreSeen(t *testing.T) {
	r := startWithAuth(t, nil)
	made, secret := r.token(admin.TokenRequest{Name: "ci", Role: admin.RoleReader})
	r.as(secret).curl("Begin", begin(id1))
	r.as("not-a-token-of-ours").curl("Begin", begin(id1))
	r.header = nil
	r.curl("Begin", begin(id1))
	log := r.log.String()
	for _, want := range []string{
		"level=WARN msg=denied method=Begin remote=127.0.0.1:", "reason=role", "reason=unknown", "reason=missing",
		"token_id=" + made.ID, `token=ci`, "needs a token of role client",
	} {
		if !strings.Contains(log, want) {
			t.Errorf("no %s in %s", want, log)
		}
	}
	for _, secret := range []string{secret, "not-a-token-of-ours", rootSecret} {
		if strings.Contains(log, secret) {
			t.Errorf("a secret is in the log: %s", log)
		}
	}
	a := r.as(rootSecret).get("/metrics")
	for _, want := range []string{`txmgr_auth_failures_total{reason="role"} 1`, `txmgr_auth_failures_total{reason="unknown"} 1`, `txmgr_auth_failures_total{reason="missing"} 1`, "txmgr_tokens 1\n", `txmgr_members{kind="voter"} 1`} {
		if !strings.Contains(a.body, want) {
			t.Errorf("no %s", want)
		}
	}
}

// After a flood of wrong tokens the address is told to wait and its connection is closed; a
// client with a valid token at the same address is served.
func TestFloodOfTokens(t *testing.T) {
	r := startWithAuth(t, nil)
	_, secret := r.token(admin.TokenRequest{Name: "ci", Role: admin.RoleReader})
	r.as("wrong-wrong-wrong-wrong")
	refused := 0
	for range 200 {
		a := r.curl("List", `{}`)
		if a.status == http.StatusTooManyRequests {
			refused++
			if a.header.Get("Txmgr-Code") != "DENIED" || a.header.Get("Retry-After") != "10" || !strings.Contains(a.body, "too many unknown tokens") {
				t.Fatalf("%v %s", a.header, a.body)
			}
		}
	}
	if refused < 150 {
		t.Errorf("%d refused", refused)
	}
	if n := r.fake.TokenLookups(); n > 200 {
		t.Errorf("%d looks", n)
	}
	if a := r.as(secret).curl("List", `{}`); a.status != http.StatusOK {
		t.Errorf("a good token: %d %s", a.status, a.body)
	}
	if n := strings.Count(r.log.String(), "msg=denied"); n < 10 || n > 60 {
		t.Errorf("%d lines in the log", n)
	}
	if a := r.as(strings.Repeat("x", 1000)).curl("List", `{}`); a.status != http.StatusUnauthorized || r.fake.TokenLookups() > 201 {
		t.Errorf("a long token: %d, %d looks", a.status, r.fake.TokenLookups())
	}
}

// A token has its own rate, commands of a Pipe included.
func TestRateOfAToken(t *testing.T) {
	r := startWithAuth(t, nil)
	_, secret := r.token(admin.TokenRequest{Name: "slow", Role: admin.RoleClient, Rate: 5})
	_, other := r.token(admin.TokenRequest{Name: "free", Role: admin.RoleClient})
	ok, started := 0, time.Now()
	var last answer
	for range 200 {
		if last = r.as(secret).curl("List", `{}`); last.status != http.StatusOK {
			break
		}
		ok++
	}
	if ok < 5 || ok > 6+int(5*time.Since(started).Seconds()) || last.header.Get("Txmgr-Code") != "UNAVAILABLE" || last.header.Get("Retry-After") != "1" || !strings.Contains(last.body, "5 calls a second") {
		t.Errorf("%d served, then %d %v %s", ok, last.status, last.header, last.body)
	}
	for range 20 {
		if a := r.as(other).curl("List", `{}`); a.status != http.StatusOK {
			t.Errorf("another token: %d", a.status)
		}
	}
	eventually(t, "a pipe", func() bool {
		p, err := dialPipe(t, r, secret)
		if err != nil {
			return false
		}
		defer func() { _, _ = p.CloseRequest(), p.CloseResponse() }()
		batch := &txmgrv1.Batch{}
		for n := range uint64(20) {
			batch.Commands = append(batch.Commands, &txmgrv1.Command{Seq: n + 1, Id: parseID(t, id1), Call: &txmgrv1.Command_Get{Get: &txmgrv1.GetCall{}}})
		}
		if p.Send(batch) != nil {
			return false // the Pipe itself exceeds the rate
		}
		limited, replies := 0, []*txmgrv1.Reply(nil)
		for len(replies) < 20 {
			b, err := p.Receive()
			if err != nil {
				return false // refused
			}
			replies = append(replies, b.GetReplies()...)
		}
		for _, reply := range replies {
			if f := reply.GetFailure(); f.GetCode() == "UNAVAILABLE" && f.GetRetryAfter() == "200ms" {
				limited++
			}
		}
		if limited < 10 {
			t.Errorf("%d of 20 commands were limited", limited)
		}
		return true
	})
}

func dialPipe(t *testing.T, r *running, secret string) (pipeline, error) {
	t.Helper()
	c := txmgrv1connect.NewTransactionServiceClient(h2(t), r.base, connect.WithInterceptors(tokenInterceptor(secret)))
	p, err := c.Pipeline(context.Background())
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(p.ResponseHeader().Get("Content-Type"), "application/connect+") {
		_, err := p.Receive()
		return nil, fmt.Errorf("no pipe: %w", err)
	}
	return p, nil
}

// tokenInterceptor is an interceptor that sends a token.
type tokenInterceptor string

func (b tokenInterceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
		r.Header().Set("Authorization", "Bearer "+string(b))
		return next(ctx, r)
	}
}

func (b tokenInterceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, s connect.Spec) connect.StreamingClientConn {
		conn := next(ctx, s)
		conn.RequestHeader().Set("Authorization", "Bearer "+string(b))
		return conn
	}
}

func (b tokenInterceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

// Long calls end when their token is revoked.
func TestRevokedTokenEndsStreams(t *testing.T) {
	r := startWithAuth(t, nil)
	made, secret := r.token(admin.TokenRequest{Name: "ci", Role: admin.RoleClient})
	p, err := dialPipe(t, r, secret)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = p.CloseRequest(), p.CloseResponse() }()
	w, err := txmgrv1connect.NewTransactionServiceClient(h2(t), r.base, connect.WithInterceptors(tokenInterceptor(secret))).Watch(context.Background(), &txmgrv1.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	send(t, p, &txmgrv1.Command{Seq: 1, Id: parseID(t, id1), Call: &txmgrv1.Command_Begin{Begin: &txmgrv1.BeginCall{}}})
	receive(t, p, 1)
	quiet := generateEvents(r.fake)
	seen := w.Receive()
	quiet()
	if !seen {
		t.Fatal(w.Err())
	}
	started := time.Now()
	if err := r.fake.RevokeToken(context.Background(), made.ID, "", ""); err != nil {
		t.Fatal(err)
	}
	if err := wire.FromConnect(end(t, p)); !errors.Is(err, txn.ErrDenied) {
		t.Errorf("the pipe ends with %v", err)
	}
	for w.Receive() { // events of generateEvents
	}
	if !errors.Is(wire.FromConnect(w.Err()), txn.ErrDenied) {
		t.Errorf("the watch ends with %v", w.Err())
	}
	if d := time.Since(started); d > 4*time.Second {
		t.Errorf("after %v", d)
	}
}

// The root token is the content of the file, also after a change; an invalid file leaves it
// as it was.
func TestRootTokenIsReadAgain(t *testing.T) {
	var path string
	r := startWithAuth(t, func(c *server.Config, _ *servertest.Fake) { path = c.RootTokenFile })
	good := func(secret string) bool { return r.as(secret).get("/metrics").status == http.StatusOK }
	if !good(rootSecret) {
		t.Fatal("the root token is not good")
	}
	for _, broken := range []string{"", "short", "two words of a length\nthat would do"} {
		if err := os.WriteFile(path, []byte(broken), 0o600); err != nil {
			t.Fatal(err)
		}
		if !good(rootSecret) {
			t.Errorf("after %q", broken)
		}
	}
	const next = "another-secret-of-the-root"
	if err := os.WriteFile(path, []byte(next), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new root token", func() bool { return good(next) })
	if good(rootSecret) {
		t.Error("the old root token is good")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a warning", func() bool { return good(next) && strings.Contains(r.log.String(), "the old one stays") })
	// The server does not wait for a named pipe.
	if err := exec.Command("mkfifo", path).Run(); err != nil {
		t.Fatal(err)
	}
	started := time.Now()
	eventually(t, "a look at the file", func() bool { return good(next) && time.Since(started) > 1200*time.Millisecond })
	for _, bad := range []string{filepath.Join(t.TempDir(), "none"), rootFile(t, "short"), rootFile(t, strings.Repeat("x", 300)), t.TempDir()} {
		if _, err := server.New(server.Config{RootTokenFile: bad}, servertest.New()); !errors.Is(err, txn.ErrInvalid) || !strings.Contains(err.Error(), "root token file") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// With authentication and no root token file, only the cluster's own tokens are valid.
func TestAuthWithoutRoot(t *testing.T) {
	r := start(t, func(c *server.Config, _ *servertest.Fake) { c.Auth = true })
	_, secret := r.token(admin.TokenRequest{Name: "ci", Role: admin.RoleReader})
	if a := r.as(secret).curl("List", `{}`); a.status != http.StatusOK {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := r.as("root").curl("List", `{}`); a.status != http.StatusUnauthorized {
		t.Errorf("%d %s", a.status, a.body)
	}
	r.header = http.Header{"Authorization": {"Basic " + secret}}
	if a := r.curl("List", `{}`); a.status != http.StatusUnauthorized {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// A new token is valid on every node at once, and a revoked one on none: the leader decides.
func TestTokensOfAFollower(t *testing.T) {
	leader := startWithAuth(t, nil)
	there := startWithAuth(t, func(_ *server.Config, f *servertest.Fake) { f.SetLeader(leader.base, false) })
	_, fresh := leader.token(admin.TokenRequest{Name: "fresh", Role: admin.RoleClient})
	_, gone := there.token(admin.TokenRequest{Name: "gone", Role: admin.RoleClient}) // the leader does not know it
	if a := there.as(fresh).curl("Begin", begin(id1)); a.status != http.StatusOK {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := there.as(gone).curl("Begin", begin(id1)); a.status != http.StatusUnauthorized || !strings.Contains(a.body, "not known") {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := there.as(fresh).curl("ClusterService/Status", `{}`); a.status != http.StatusUnauthorized {
		t.Errorf("what is local needs a token that is known here: %d %s", a.status, a.body)
	}
	p, err := dialPipe(t, there, fresh)
	if err != nil {
		t.Fatal(err)
	}
	send(t, p, &txmgrv1.Command{Seq: 1, Id: parseID(t, id1), Call: &txmgrv1.Command_Get{Get: &txmgrv1.GetCall{}}})
	receive(t, p, 1)
	_ = p.CloseRequest()
	if err := end(t, p); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	_ = p.CloseResponse()
}
