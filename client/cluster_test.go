package client_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/server"
	"github.com/txmgr/txmgr/server/servertest"
	"github.com/txmgr/txmgr/txn"
)

// testCluster is a cluster as clients see it: servers that share one state, one of which
// leads.
type testCluster struct {
	*servertest.Fake
	members []*member
	leader  atomic.Int32 // -1: none
	deaths  atomic.Int32 // so many leaders crash, each after it has applied a decision
	applied atomic.Int32 // decisions that arrived
}

// member is one server of a testCluster. Like a node, it decides nothing while it does not
// lead.
type member struct {
	*servertest.Fake
	of   *testCluster
	n    int
	addr string
	http *http.Server

	mu   sync.Mutex // guards the rest
	seen []seen
}

// seen is a request that reached a server.
type seen struct{ path, forwarded, stale, authorization string }

func newTestCluster(t *testing.T, size int) *testCluster {
	t.Helper()
	f := &testCluster{Fake: servertest.New()}
	for n := range size {
		m := &member{Fake: f.Fake, of: f, n: n}
		f.members = append(f.members, m)
		ln := listen(t, "127.0.0.1:0")
		m.addr = "http://" + ln.Addr().String()
		s, err := server.New(server.Config{Log: slog.New(slog.NewTextHandler(io.Discard, nil))}, m)
		if err != nil {
			t.Fatal(err)
		}
		protocols := new(http.Protocols)
		protocols.SetHTTP1(true)
		protocols.SetUnencryptedHTTP2(true)
		m.http = &http.Server{Protocols: protocols, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			m.mu.Lock()
			m.seen = append(m.seen, seen{r.URL.Path, r.Header.Get(wire.HeaderForwarded), r.Header.Get(wire.HeaderStale), r.Header.Get("Authorization")})
			m.mu.Unlock()
			s.Handler().ServeHTTP(w, r)
		})}
		served := make(chan error, 1)
		go func() { served <- m.http.Serve(ln) }()
		t.Cleanup(func() {
			m.crash()
			<-served
			if err := s.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	return f
}

// address lists the servers, those named first.
func (f *testCluster) address(first ...int) string {
	var list []string
	for _, n := range first {
		list = append(list, f.members[n].addr)
	}
	return strings.Join(list, ",")
}

// direct is how often a client, not another server, called a path here.
func (m *member) direct(path string) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.seen {
		if strings.HasSuffix(s.path, path) && s.forwarded == "" {
			n++
		}
	}
	return n
}

func (m *member) requests() []seen {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.seen)
}

// crash ends the server as a crash does.
func (m *member) crash() { _ = m.http.Close() } // cannot fail

// Leader implements [server.Coordinator].
func (m *member) Leader() (api string, here bool) {
	n := int(m.of.leader.Load())
	if n < 0 || n == m.n {
		return "", n == m.n
	}
	return m.of.members[n].addr, false
}

// Ready implements [server.Coordinator].
func (m *member) Ready() error {
	if m.of.leader.Load() < 0 {
		return fmt.Errorf("%w: no leader", txn.ErrUnavailable)
	}
	return nil
}

func (m *member) leads() error {
	if _, here := m.Leader(); !here {
		return fmt.Errorf("%w: this node does not lead", txn.ErrUnavailable)
	}
	return nil
}

// Begin implements [txn.Manager].
func (m *member) Begin(ctx context.Context, o txn.Options) (txn.BeginResult, error) {
	return decided(m, func() (txn.BeginResult, error) { return m.Fake.Begin(ctx, o) })
}

// Commit implements [txn.Manager].
func (m *member) Commit(ctx context.Context, id txn.ID, c txn.CommitRequest) (txn.Outcome, error) {
	return decided(m, func() (txn.Outcome, error) { return m.Fake.Commit(ctx, id, c) })
}

// Vote implements [txn.Manager].
func (m *member) Vote(ctx context.Context, id txn.ID, b txn.Votes) (txn.Outcome, error) {
	return decided(m, func() (txn.Outcome, error) { return m.Fake.Vote(ctx, id, b) })
}

// Delegate implements [txn.Manager].
func (m *member) Delegate(ctx context.Context, id txn.ID, b txn.BranchID) (txn.Outcome, error) {
	return decided(m, func() (txn.Outcome, error) { return m.Fake.Delegate(ctx, id, b) })
}

// decided executes a call where it can be executed, and lets the leader crash before the
// answer, as often as required; the next one leads from then on.
func decided[T any](m *member, call func() (T, error)) (T, error) {
	var nothing T
	if err := m.leads(); err != nil {
		return nothing, err
	}
	v, err := call()
	m.of.applied.Add(1)
	if m.of.deaths.Add(-1) >= 0 {
		m.of.leader.Store(int32((m.n + 1) % len(m.of.members)))
		m.crash()
	}
	return v, err
}
