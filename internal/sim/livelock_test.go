package sim

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/txn"
)

// TestFollowerCatchesUpAfterSnapshot is raft's livelock without chance: a follower is
// sent a snapshot, and the answer to the first entries after it is lost. raft alone
// then sends snapshots for ever, because of the hole that there is in the follower's
// log; the coordinator has to free it.
func TestFollowerCatchesUpAfterSnapshot(t *testing.T) {
	for _, lost := range []int{0, 1, 2} {
		t.Run(fmt.Sprintf("%d answers lost", lost), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { catchUp(t, lost) })
		})
	}
}

// catchUpBound is how long a follower that was away may take.
const catchUpBound = 30 * time.Second

func catchUp(t *testing.T, lost int) {
	w := newWorld(Plan{Seed: 1, Nodes: 3, Faced: time.Second, Apps: 1, Unanchored: true})
	for _, h := range w.hosts {
		h.start()
	}
	defer func() {
		for _, h := range w.hosts {
			l := h.alive()
			close(l.dead)
			l.tr.shut()
			w.all.Go(func() { _ = l.node.Close() })
		}
		w.all.Wait()
	}()
	rest(5 * time.Second)
	l := w.leader()
	if l == nil {
		t.Fatal("nobody leads after 5 s")
	}
	away := w.hosts[(l.host.index+1)%3]
	d := newDice(1, 9)
	write := func(n int) {
		for range n {
			o := txn.Options{ID: txn.NewID(time.Now(), d.chance())}
			if _, err := l.node.Begin(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			if _, err := l.node.Rollback(t.Context(), o.ID, "a test"); err != nil {
				t.Fatal(err)
			}
		}
	}
	cut := func(cut bool) {
		for i := range w.hosts {
			if i != away.index {
				w.net.set(i, away.index, cut)
				w.net.set(away.index, i, cut)
			}
		}
	}
	write(20)
	rest(time.Second)
	cut(true)
	write(200)
	if err := l.node.Snapshot(); err != nil {
		t.Fatal(err)
	}
	cut(false)
	if behind := awaitCaughtUp(w, l, away); behind != "" {
		t.Fatalf("before any answer was lost: %s", behind)
	}
	if w.fired["snapshot sent"] == 0 {
		t.Fatal("no snapshot was sent: nothing was tried")
	}
	eaten := 0
	w.net.change(func(n *network) {
		n.eats = func(_, to int, command, answer any) bool {
			a, ok := command.(*raft.AppendEntriesRequest)
			r, fine := answer.(*raft.AppendEntriesResponse)
			if to != away.index || !ok || !fine || len(a.Entries) == 0 || !r.Success || eaten == lost {
				return false
			}
			eaten++
			return true
		}
	})
	write(1)
	rest(time.Second)
	write(10)
	if behind := awaitCaughtUp(w, l, away); behind != "" {
		t.Errorf("%v after the network was whole: %s; %d snapshots were sent\n%s", catchUpBound, behind, w.fired["snapshot sent"], w.Story())
	}
	if eaten != lost {
		t.Errorf("%d answers were lost; want %d", eaten, lost)
	}
}

// awaitCaughtUp waits until a follower has applied all that the leader has; otherwise
// it says how far that got.
func awaitCaughtUp(w *World, leader *life, follower *host) string {
	behind := ""
	for began := w.now(); w.now() < began+catchUpBound; rest(100 * time.Millisecond) {
		a, err := leader.node.Status(txn.AllowStale(context.Background()))
		b, err2 := follower.alive().node.Status(txn.AllowStale(context.Background()))
		behind = fmt.Sprintf("the follower has applied %d (%v), the leader %d (%v)", b.LogIndex, err2, a.LogIndex, err)
		if err == nil && err2 == nil && a.LogIndex == b.LogIndex {
			return ""
		}
	}
	return behind
}
