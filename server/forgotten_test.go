package server_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txmgr/txmgr/node"
	"github.com/txmgr/txmgr/server"
	"github.com/txmgr/txmgr/txn"
)

// TestBeginThatAHaltedFollowerForwardsLate: a follower is halted while it forwards a begin in
// JSON. Its client sends the same begin to the leader, which answers "committed"; the outcome
// is forgotten. Then the follower resumes: the begin that it forwards must begin nothing.
func TestBeginThatAHaltedFollowerForwardsLate(t *testing.T) {
	n, err := node.Open(t.Context(), node.Config{
		DataDir: t.TempDir(), Interval: 10 * time.Millisecond, Retention: 2 * time.Second, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	leader := serving(t, n, server.Config{})
	to, err := url.Parse(leader.base)
	if err != nil {
		t.Fatal(err)
	}
	// The connection from the follower to the leader, on which the first call is halted.
	proxy, goOn, stands := httputil.NewSingleHostReverseProxy(to), make(chan struct{}), make(chan struct{})
	var calls atomic.Int64
	way := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) == 1 {
			close(stands)
			<-goOn
		}
		proxy.ServeHTTP(w, r)
	}))
	way.Config.Protocols = new(http.Protocols)
	way.Config.Protocols.SetUnencryptedHTTP2(true) // as between nodes
	way.Start()
	t.Cleanup(way.Close)
	follower := serving(t, followerNode{n, way.URL}, server.Config{CallTimeout: time.Minute})

	mark, _ := leader.curl("Begin", `{}`).object(t)["mark"].(string)
	id := txn.NewID(time.Now(), [9]byte{3}).String()
	begin := fmt.Sprintf(`{"id":%q,"mark":%q,"timeout":"30s"}`, id, mark)
	late := make(chan answer, 1)
	go func() { late <- follower.curl("Begin", begin) }()
	<-stands
	for _, call := range [][2]string{{"Begin", begin}, {"Commit", fmt.Sprintf(`{"id":%q}`, id)}} {
		if a := leader.curl(call[0], call[1]); a.status != http.StatusOK {
			close(goOn)
			t.Fatalf("%s at the leader, with mark %q: %d %s", call[0], mark, a.status, a.body)
		}
	}
	eventually(t, "the outcome is forgotten", func() bool {
		leader.curl("Begin", `{"timeout":"10ms"}`)
		return leader.curl("Get", fmt.Sprintf(`{"id":%q}`, id)).status == http.StatusNotFound
	})
	close(goOn)
	a := <-late
	if a.status == http.StatusOK || !strings.Contains(a.body, `"kinds":["forgotten"]`) || !strings.Contains(a.body, "look at your data") {
		t.Errorf("the begin that the follower forwards late: %d %s", a.status, a.body)
	}
	if a := leader.curl("Get", fmt.Sprintf(`{"id":%q}`, id)); a.status != http.StatusNotFound {
		t.Errorf("the transaction that was told to be committed is begun again: %s", a.body)
	}
	if a := leader.curl("Begin", `{"mark":"4711x"}`); a.status != http.StatusBadRequest || !strings.Contains(a.body, "mark") {
		t.Errorf("a bad mark: %d %s", a.status, a.body)
	}
}
