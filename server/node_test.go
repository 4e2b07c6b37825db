package server_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/api/txmgr/v1/txmgrv1connect"
	"github.com/txmgr/txmgr/node"
	"github.com/txmgr/txmgr/server"
	"github.com/txmgr/txmgr/txn"
)

// followerNode is a node that another follows, as that one sees it.
type followerNode struct {
	server.Coordinator
	api string
}

func (e followerNode) Leader() (string, bool) { return e.api, false }

var _ server.DurationMetrics = (*node.Node)(nil)

// A real node, called directly and through another server: tokens, transactions, a
// Pipe, a backup, and how late its timeouts are.
func TestRealNode(t *testing.T) {
	n, err := node.Open(t.Context(), node.Config{DataDir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	eventually(t, "a leader", func() bool { _, here := n.Leader(); return here })
	leader := serving(t, n, server.Config{RootTokenFile: rootFile(t, rootSecret)})
	there := serving(t, followerNode{n, leader.base}, server.Config{Auth: true})

	secret, _ := leader.as(rootSecret).curl("TokenService/Create", `{"name":"app","role":"client"}`).object(t)["secret"].(string)
	for i, r := range []*running{leader, there} {
		r.as(secret)
		id := txn.NewID(time.Now(), [9]byte{byte(i), 3}).String()
		for _, step := range [][2]string{{"Begin", "active"}, {"Commit", "committed"}, {"Get", `"state":"committed"`}} {
			if a := r.curl(step[0], begin(id)); a.status != http.StatusOK || step[0] != "Begin" && !strings.Contains(a.body, step[1]) {
				t.Errorf("%s: %d %s", step[0], a.status, a.body)
			}
		}
		if a := r.curl("ClusterService/Snapshot", `{}`); a.status != http.StatusForbidden {
			t.Errorf("a client's snapshot: %d %s", a.status, a.body)
		}
		p, err := dialPipe(t, r, secret)
		if err != nil {
			t.Fatal(err)
		}
		send(t, p, &txmgrv1.Command{Seq: 1, Id: parseID(t, id), Call: &txmgrv1.Command_Get{Get: &txmgrv1.GetCall{}}})
		if got := receive(t, p, 1)[1]; got.GetGet().GetState() != "committed" {
			t.Errorf("%v", got)
		}
		_, _ = p.CloseRequest(), p.CloseResponse()
	}
	var whole bytes.Buffer
	s, err := txmgrv1connect.NewClusterServiceClient(h2(t), leader.base, connect.WithInterceptors(tokenInterceptor(rootSecret))).Snapshot(context.Background(), &txmgrv1.SnapshotRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var last *txmgrv1.Backup
	for s.Receive() {
		whole.Write(s.Msg().GetData())
		last = s.Msg().GetBackup()
	}
	if s.Err() != nil || last.GetBytes() != int64(whole.Len()) || whole.Len() == 0 {
		t.Errorf("%d bytes, %v, %v", whole.Len(), last, s.Err())
	}
	_ = s.Close()
	a := leader.as(rootSecret).get("/metrics")
	if entries := regexp.MustCompile(`txmgr_log_entry_duration_seconds_bucket\{le="60"\} ([0-9]+)\n`).FindStringSubmatch(a.body); entries == nil || entries[1] == "0" {
		t.Errorf("entries within a minute: %q", entries)
	}
	for _, want := range []string{"txmgr_timeout_lag_seconds_count 0\n", "txmgr_tokens 1\n", "txmgr_leader 1\n", `txmgr_members{kind="voter"} 1`} {
		if !strings.Contains(a.body, want) {
			t.Errorf("no %s", want)
		}
	}
}
