package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/api/txmgr/v1/txmgrv1connect"
	"github.com/txmgr/txmgr/server"
	"github.com/txmgr/txmgr/server/servertest"
	"github.com/txmgr/txmgr/txn/admin"
)

// The leader sees the address of the node that forwarded a call. So a wrong token is logged
// and counted on the node that received the call, in every protocol.
func TestDenialsOfForwardedCallsAreSeen(t *testing.T) {
	leader := startWithAuth(t, nil)
	there := startWithAuth(t, func(_ *server.Config, f *servertest.Fake) { f.SetLeader(leader.base, false) })
	const wrong = "wrong-wrong-wrong-wrong"
	calls := map[string]func(){
		"json": func() { there.as(wrong).curl("Begin", begin(id1)) },
		"pipe": func() {
			p, err := dialPipe(t, there, wrong)
			if err == nil {
				err = end(t, p)
			}
			if connect.CodeOf(err) != connect.CodeUnauthenticated {
				t.Errorf("pipe: %v", err)
			}
		},
	}
	for name, option := range map[string]connect.ClientOption{"grpc": connect.WithGRPC(), "grpc-web": connect.WithGRPCWeb()} {
		calls[name] = func() {
			c := txmgrv1connect.NewTransactionServiceClient(h2(t), there.base, option, connect.WithInterceptors(tokenInterceptor(wrong)))
			if _, err := c.Begin(t.Context(), &txmgrv1.BeginRequest{Id: id1}); connect.CodeOf(err) != connect.CodeUnauthenticated {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	seen := func() int {
		return strings.Count(there.log.String(), "level=WARN msg=denied method=")
	}
	for name, call := range calls {
		before := seen()
		call()
		if seen() != before+1 {
			t.Errorf("%s: %d lines: %s", name, seen()-before, there.log.String())
		}
	}
	if log := there.log.String(); strings.Contains(log, wrong) || !strings.Contains(log, "remote=127.0.0.1:") {
		t.Error(log)
	}
	if a := there.as(rootSecret).get("/metrics"); !strings.Contains(a.body, `txmgr_auth_failures_total{reason="unknown"} 4`) {
		t.Error("the metric has not counted them")
	}
}

// A token with the name that the audit log uses for the root token or for the cluster would
// act in its name; and its revocation would look like that of root.
func TestNoTokenIsNamedRoot(t *testing.T) {
	r := startWithAuth(t, nil).as(rootSecret)
	for name, want := range map[string]int{"root": http.StatusBadRequest, "txmgr": http.StatusBadRequest, "roots": http.StatusOK} {
		if a := r.curl("TokenService/Create", `{"name":"`+name+`","role":"reader"}`); a.status != want {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
}

// A page of another site can make that site's name resolve to 127.0.0.1. Then the browser
// takes this server for the site; only the name in Host reveals this.
func TestAnotherSitesNameIsNotLocal(t *testing.T) {
	call := func(base, host string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/txmgr.v1.TransactionService/Begin", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Host = host
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return res.StatusCode
	}
	open := start(t, nil)
	for host, want := range map[string]int{
		"evil.example": 403, "evil.example:7460": 403, "127.0.0.1.evil.example": 403, "localhost.evil.example": 403,
		"": 200, "localhost:7460": 200, "LOCALHOST.": 200, "txmgr.localhost": 200, "127.0.0.1:1": 200, "[::1]:7460": 200, "10.0.0.1": 200,
	} {
		if got := call(open.base, host); got != want {
			t.Errorf("Host %q: %d; want %d", host, got, want)
		}
	}
	// Without its body.
	c := dial(t, open.addr)
	if _, err := fmt.Fprint(c, "POST /txmgr.v1.TransactionService/Begin HTTP/1.1\r\nHost: evil.example\r\nContent-Type: application/json\r\nContent-Length: 20\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 4096)
	if n, err := c.Read(said); err != nil || !strings.HasPrefix(string(said[:n]), "HTTP/1.1 403") {
		t.Errorf("%v: %s", err, said[:n])
	}
	if _, err := c.Read(said); !errors.Is(err, io.EOF) {
		t.Errorf("its connection is still open: %v", err)
	}
	if got := call(startWithAuth(t, nil).base, "evil.example"); got != 401 {
		t.Errorf("with tokens: %d; want 401", got)
	}
}

// delayedTokens learns of tokens with a delay.
type delayedTokens struct {
	*servertest.Fake
	asked atomic.Int64
}

func (l *delayedTokens) AuthenticateToken(secret string) (admin.Token, bool) {
	if l.asked.Add(1) < 4 {
		return admin.Token{}, false
	}
	return l.Fake.AuthenticateToken(secret)
}

// A new token is valid for node-local calls too: the node waits until the token is
// replicated. The leader knows every token.
func TestTokenOnItsWay(t *testing.T) {
	for _, here := range []bool{false, true} {
		l := &delayedTokens{Fake: servertest.New()}
		l.SetLeader("http://127.0.0.1:1", here)
		r := serving(t, l, server.Config{RootTokenFile: rootFile(t, rootSecret)})
		_, secret, err := l.CreateToken(context.Background(), admin.TokenRequest{Name: "fresh", Role: admin.RoleReader})
		if err != nil {
			t.Fatal(err)
		}
		want := http.StatusOK
		if here {
			want = http.StatusUnauthorized
		}
		if a := r.as(secret).curl("ClusterService/Status", `{}`); a.status != want {
			t.Errorf("leads %v: %d %s", here, a.status, a.body)
		}
	}
}
