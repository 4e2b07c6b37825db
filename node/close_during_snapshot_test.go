package node

import (
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/txn"
)

// limitedProxy is a proxy in front of a node's port that forwards only a limited number of bytes
// on each connection: to its peers the node then looks like a suspended process, and its peers
// look so to the node.
type limitedProxy struct {
	listener net.Listener
	to       string
	limit    int64
	blocked  atomic.Int64 // connections that have reached the limit
	work     sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn // guarded by mu
}

func openLimitedProxy(t *testing.T, to string, limit int64) *limitedProxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &limitedProxy{listener: l, to: to, limit: limit}
	s.work.Go(s.accept)
	return s
}

func (s *limitedProxy) close() {
	_ = s.listener.Close()
	s.mu.Lock()
	for _, c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.work.Wait()
}

func (s *limitedProxy) accept() {
	for {
		in, err := s.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", s.to)
		if err != nil {
			_ = in.Close()
			continue
		}
		s.mu.Lock()
		s.conns = append(s.conns, in, out)
		s.mu.Unlock()
		s.work.Go(func() {
			if n, err := io.CopyN(out, in, s.limit); err != nil || n < s.limit {
				_ = out.Close()
				return
			}
			s.blocked.Add(1) // both connections stay open
		})
		s.work.Go(func() {
			_, _ = io.Copy(in, out)
			if s.blocked.Load() == 0 {
				_ = in.Close()
			}
		})
	}
}

// closes fails if a node takes long to close.
func closes(t *testing.T, who string, n *Node) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- n.Close() }()
	start := time.Now()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("closing %s: %v", who, err)
		}
		t.Logf("%s was closed within %v", who, time.Since(start))
	case <-time.After(8 * time.Second):
		t.Errorf("%s is not closed after 8 seconds", who)
	}
}

// TestCloseInTheMiddleOfASnapshot: to the leader a node seems suspended while it receives a
// snapshot, and to that node the leader seems suspended while it sends one. Both can be closed.
func TestCloseInTheMiddleOfASnapshot(t *testing.T) {
	addr := freePorts(t, 2)
	l, err := Open(t.Context(), Config{DataDir: t.TempDir(), Cluster: &Cluster{Listen: addr[0], Expect: 1}, trailingLogs: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	leaderOf(t, l)
	label := map[string]string{}
	for _, k := range []string{"a", "b", "c", "d", "e", "f"} {
		label[k] = strings.Repeat(k, txn.MaxLabel)
	}
	var work sync.WaitGroup
	for range 64 {
		work.Go(func() {
			for range 64 {
				if _, err := l.Begin(t.Context(), txn.Options{Timeout: time.Hour, Labels: label}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	work.Wait()
	if err := l.Snapshot(); err != nil {
		t.Fatal(err)
	}
	s := openLimitedProxy(t, addr[1], 256<<10)
	defer s.close()
	f := openMember(t, t.TempDir(), Cluster{Listen: addr[1], Advertise: s.listener.Addr().String(), Join: addr[:1]})
	waittest.Until(t, "a snapshot is stuck", func() bool { return s.blocked.Load() > 0 })
	closes(t, "the leader", l)
	closes(t, "the follower", f)
}
