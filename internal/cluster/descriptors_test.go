package cluster

import (
	"net"
	"testing"
)

// TestFewDescriptors: the leader may have few files open, and a client opens more connections to it
// than that, and keeps them open. Commits continue, or resume at the latest when the connections
// are closed; no process ends.
func TestFewDescriptors(t *testing.T) {
	t.Parallel()
	const limit = "128"
	b := newTestCluster(t)
	for _, n := range b.nodes {
		n.wrap("prlimit", "--nofile="+limit+":"+limit)
	}
	b.form()
	l := b.load(waitTimeout)
	leader, _ := b.leader()
	var idle []net.Conn
	for range 400 {
		c, err := net.DialTimeout("tcp", leader.net.address(leader.n)+":"+apiPort, waitTimeout)
		if err != nil {
			break // refused, which is correct too
		}
		idle = append(idle, c)
	}
	if len(idle) < 128 {
		t.Errorf("only %d connections could be opened", len(idle))
	}
	l.awaitCommits()
	for _, c := range idle {
		_ = c.Close()
	}
	l.awaitCommits()
	l.check()
	for _, n := range b.nodes {
		if !n.up() {
			t.Errorf("%s has ended", n.Name)
		}
	}
}
