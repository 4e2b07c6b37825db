package sim

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// trial is a cluster of three for tests of one thing: without chance, and without
// applications.
type trial struct {
	w      *World
	leader *life
	away   *host // a follower
	dice   *dice
}

// newTrial starts the nodes and waits until one leads.
func newTrial(t *testing.T, p Plan) *trial {
	t.Helper()
	x := &trial{w: newWorld(p), dice: newDice(1, 9)}
	for _, h := range x.w.hosts {
		h.start()
	}
	rest(5 * time.Second)
	if x.leader = x.w.leader(); x.leader == nil {
		x.end()
		t.Fatal("nobody leads after 5 s")
	}
	x.away = x.w.hosts[(x.leader.host.index+1)%3]
	return x
}

// end stops all nodes.
func (x *trial) end() {
	for _, h := range x.w.hosts {
		l := h.alive()
		close(l.dead)
		l.tr.shut()
		x.w.all.Go(func() { _ = l.node.Close() })
	}
	x.w.awaitEnd()
}

// write makes so many transactions, of two entries each.
func (x *trial) write(t *testing.T, n int) {
	t.Helper()
	for range n {
		o := txn.Options{ID: txn.NewID(time.Now(), x.dice.chance())}
		if _, err := x.leader.node.Begin(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if _, err := x.leader.node.Rollback(t.Context(), o.ID, "a test"); err != nil {
			t.Fatal(err)
		}
	}
}

// cut cuts the follower off, both ways.
func (x *trial) cut(cut bool) {
	for i := range x.w.hosts {
		if i != x.away.index {
			x.w.net.set(i, x.away.index, cut)
			x.w.net.set(x.away.index, i, cut)
		}
	}
}

func (x *trial) snapshot(t *testing.T, l *life) {
	t.Helper()
	if err := l.node.Snapshot(); err != nil {
		t.Fatal(err)
	}
}

// newest gives the newest snapshot that a node has.
func (x *trial) newest(l *life) *image {
	l.host.mu.Lock()
	d := l.host.disk
	l.host.mu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.snapshots[len(d.snapshots)-1]
}

// catchUpBound is how long a follower that was away may take.
const catchUpBound = 30 * time.Second

// awaitCaughtUp waits until the follower has applied all that the leader has; otherwise
// it says how far that got.
func (x *trial) awaitCaughtUp() (behind string) {
	for began := x.w.now(); x.w.now() < began+catchUpBound; rest(100 * time.Millisecond) {
		lag, text := x.lag()
		if lag == 0 {
			return ""
		}
		behind = text
	}
	return behind
}

// lag is how many entries the follower is behind what the leader has applied.
func (x *trial) lag() (n int, text string) {
	ctx := txn.AllowStale(context.Background())
	a, err := x.leader.node.Status(ctx)
	b, err2 := x.away.alive().node.Status(ctx)
	if err != nil || err2 != nil {
		return 1, fmt.Sprintf("status: %v, %v", err, err2)
	}
	return int(a.LogIndex) - int(b.LogIndex), fmt.Sprintf("the follower has applied %d, the leader %d", b.LogIndex, a.LogIndex)
}
