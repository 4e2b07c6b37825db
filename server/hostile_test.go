package server_test

import (
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/api/txmgr/v1/txmgrv1connect"
	"github.com/txmgr/txmgr/server"
	"github.com/txmgr/txmgr/server/servertest"
)

// The node that leads sees the address of the node that passed a call on. So who came
// with a wrong token is said, and counted, where he came, whatever protocol he speaks.
func TestDenialsOfForwardedCallsAreSeen(t *testing.T) {
	leader := guarded(t, nil)
	there := guarded(t, func(_ *server.Config, f *servertest.Fake) { f.SetLeader(leader.base, false) })
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
			c := txmgrv1connect.NewTransactionServiceClient(h2(t), there.base, option, connect.WithInterceptors(bearing(wrong)))
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
	if a := there.as(rootSecret).get("/metrics"); !strings.Contains(a.body, `txmgr_denied_total{reason="unknown"} 4`) {
		t.Error("the metric has not counted them")
	}
}

// Somebody who is called as the root token, or the cluster, are in the audit would act
// in its name; and to revoke him would look as if root were revoked.
func TestNobodyIsCalledRoot(t *testing.T) {
	r := guarded(t, nil).as(rootSecret)
	for name, want := range map[string]int{"root": http.StatusBadRequest, "txmgr": http.StatusBadRequest, "roots": http.StatusOK} {
		if a := r.curl("TokenService/Create", `{"name":"`+name+`","role":"reader"}`); a.status != want {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
}
