package node

import (
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// TestLeaderServesWhileItsLogIsStuck: the leader's logger is blocked, and a follower is down, which
// raft logs from the goroutine that everything else in it waits for. Calls are answered all the
// same.
func TestLeaderServesWhileItsLogIsStuck(t *testing.T) {
	t.Parallel()
	free, failed, addresses := make(chan struct{}), make(chan error, 1), freePorts(t, 3)
	var stuck [3]atomic.Bool
	var nodes []*Node
	defer func() {
		close(free)
		for _, n := range nodes {
			if err := n.Close(); err != nil {
				t.Error(err)
			}
		}
	}()
	for i, a := range addresses {
		n, err := Open(t.Context(), Config{
			DataDir: t.TempDir(), Cluster: &Cluster{Listen: a, Name: a, Expect: 3, Join: addresses},
			Logger: slog.New(stuckHandler{&stuck[i], free}), OnFailure: func(err error) { failed <- err },
		})
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, n)
	}
	n := leaderOf(t, nodes...)
	l := slices.Index(nodes, n)
	stuck[l].Store(true)
	if err := nodes[(l+1)%3].Close(); err != nil {
		t.Error(err)
	}
	// raft detects a lost follower after some hundred milliseconds, and logs it within two seconds.
	for started := time.Now(); time.Since(started) < 3*time.Second; {
		select {
		case err := <-beginSoon(t, n):
			if err != nil {
				t.Fatalf("a leader whose log is stuck: %v", err)
			}
		case err := <-failed:
			t.Fatalf("a leader whose log is stuck ends: %v", err)
		}
	}
}
