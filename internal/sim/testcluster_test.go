package sim

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// testCluster is a cluster of three nodes for tests of one property: without randomness, and
// without applications.
type testCluster struct {
	w        *World
	leader   *process
	follower *host // a follower
	rng      *rng
}

// newTestCluster starts the nodes and waits until one leads.
func newTestCluster(t *testing.T, p Plan) *testCluster {
	t.Helper()
	x := &testCluster{w: newWorld(p), rng: newRNG(1, 9)}
	for _, h := range x.w.hosts {
		h.start()
	}
	sleep(5 * time.Second)
	if x.leader = x.w.leader(); x.leader == nil {
		x.end()
		t.Fatal("no leader after 5 s")
	}
	x.follower = x.w.hosts[(x.leader.host.index+1)%3]
	return x
}

// end stops all nodes.
func (x *testCluster) end() {
	for _, h := range x.w.hosts {
		l := h.running()
		close(l.dead)
		l.tr.shut()
		x.w.all.Go(func() { _ = l.node.Close() })
	}
	x.w.awaitEnd()
}

// write makes n transactions, of two entries each.
func (x *testCluster) write(t *testing.T, n int) {
	t.Helper()
	for range n {
		o := txn.Options{ID: txn.NewID(time.Now(), x.rng.entropy())}
		if _, err := x.leader.node.Begin(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if _, err := x.leader.node.Rollback(t.Context(), o.ID, "a test"); err != nil {
			t.Fatal(err)
		}
	}
}

// cut disconnects the follower, in both directions.
func (x *testCluster) cut(cut bool) {
	for i := range x.w.hosts {
		if i != x.follower.index {
			x.w.net.set(i, x.follower.index, cut)
			x.w.net.set(x.follower.index, i, cut)
		}
	}
}

func (x *testCluster) snapshot(t *testing.T, l *process) {
	t.Helper()
	if err := l.node.Snapshot(); err != nil {
		t.Fatal(err)
	}
}

// newest returns the newest snapshot of a node.
func (x *testCluster) newest(l *process) *snapshotImage {
	l.host.mu.Lock()
	d := l.host.disk
	l.host.mu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.snapshots[len(d.snapshots)-1]
}

// catchUpBound is how long a follower that was down may take.
const catchUpBound = 30 * time.Second

// awaitCaughtUp waits until the follower has applied all that the leader has; otherwise it
// describes how far it got.
func (x *testCluster) awaitCaughtUp() (behind string) {
	for began := x.w.now(); x.w.now() < began+catchUpBound; sleep(100 * time.Millisecond) {
		lag, text := x.lag()
		if lag == 0 {
			return ""
		}
		behind = text
	}
	return behind
}

// lag is how many entries the follower is behind what the leader has applied.
func (x *testCluster) lag() (n int, text string) {
	ctx := txn.AllowStale(context.Background())
	a, err := x.leader.node.Admin().Status(ctx)
	b, err2 := x.follower.running().node.Admin().Status(ctx)
	if err != nil || err2 != nil {
		return 1, fmt.Sprintf("status: %v, %v", err, err2)
	}
	return int(a.LogIndex) - int(b.LogIndex), fmt.Sprintf("the follower has applied %d, the leader %d", b.LogIndex, a.LogIndex)
}
