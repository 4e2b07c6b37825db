package node

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// TestAnEarlierTermDecidesNothing: a node that has lost the term in which it took over, and
// won another, and has noticed neither yet, may not have applied the decisions in between:
// it answers nothing.
func TestAnEarlierTermDecidesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := openReplicas(t, 3, nil)
		defer c.close()
		n := c.nodes[c.leader()]
		b := begin(t, n, time.Minute)
		term := n.terms.latest.Load()
		n.terms.latest.Store(term - 1)
		if _, err := n.Get(t.Context(), b.ID); !errors.Is(err, txn.ErrUnavailable) {
			t.Errorf("it answers a read: %v", err)
		}
		if _, err := n.Begin(t.Context(), txn.Options{}); !errors.Is(err, txn.ErrUnavailable) {
			t.Errorf("it begins a transaction: %v", err)
		}
		if _, here := n.Leader(); here {
			t.Error("it says that it leads")
		}
		n.terms.latest.Store(term)
		if _, err := n.Get(t.Context(), b.ID); err != nil {
			t.Error(err)
		}
	})
}

// TestNoReadWhileLeadershipIsHandedOver: the transfer target asks for votes at once. A node that
// confirms that this one leads may have sent that before.
func TestNoReadWhileLeadershipIsHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var narrow atomic.Bool
		c := openReplicas(t, 3, nil, func(_ int, t *raft.InmemTransport) raft.Transport { return &narrowNet{t, &narrow} })
		defer c.close()
		defer narrow.Store(false)
		n := c.nodes[c.leader()]
		b := begin(t, n, time.Minute)
		narrow.Store(true)
		begun := beginSoon(t, n) // the target waits for this entry
		pass(100 * time.Millisecond)
		m, _ := n.cluster.TransferTarget()
		ended := make(chan error, 1)
		go func() { ended <- n.cluster.TransferNow(t.Context(), m) }()
		pass(100 * time.Millisecond)
		if _, err := n.Get(t.Context(), b.ID); !errors.Is(err, txn.ErrUnavailable) || !strings.Contains(err.Error(), "transfer in progress") {
			t.Errorf("a read: %v", err)
		}
		narrow.Store(false)
		<-begun
		<-ended
		if n.cluster.Transferring() {
			t.Error("it is still being handed over")
		}
	})
}

// TestALateParticipantDoesNotKeepANodeFromLeading: a participant that does not care for the
// end of its call holds a worker of the node that led, and not the node when it leads again.
func TestALateParticipantDoesNotKeepANodeFromLeading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, asked := make(chan struct{}), make(chan struct{}, 8)
		stuck := &voter{newFakeParticipant(), func(context.Context, participant.Branch) (txn.Vote, string, error) {
			asked <- struct{}{}
			<-release
			return txn.VotePrepared, "", nil
		}}
		c := openReplicas(t, 3, with(participantMap{"shop": stuck}))
		defer c.close()
		defer close(release)
		first := c.leader()
		n := c.nodes[first]
		b := beginAt(t, n, time.Minute, "shop")
		ended := make(chan error, 1)
		go func() {
			_, err := n.Commit(t.Context(), b.ID, txn.CommitRequest{})
			ended <- err
		}()
		<-asked
		if err := n.Admin().TransferLeader(t.Context(), "", "", ""); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err == nil {
			t.Error("a commit without a vote was answered")
		}
		second := c.leader()
		if err := c.nodes[second].Admin().TransferLeader(t.Context(), string(c.servers[first].ID), "", ""); err != nil {
			t.Fatal(err)
		}
		if l := c.leader(); l != first {
			t.Errorf("node %d leads; want %d", l, first)
		}
	})
}

// TestASimulatedNodeHasNoPort: what needs to ask other nodes is refused, and nothing breaks.
func TestASimulatedNodeHasNoPort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := openReplicas(t, 3, nil)
		defer c.close()
		n := c.nodes[c.leader()]
		if _, err := n.Admin().Join(t.Context(), "n9", "test", ""); !errors.Is(err, txn.ErrUnavailable) {
			t.Errorf("join: %v", err)
		}
		if err := n.Admin().Leave(t.Context(), "test", ""); !errors.Is(err, txn.ErrUnavailable) {
			t.Errorf("leave: %v", err)
		}
	})
}

// TestASnapshotWakesWhoeverWaits: a follower gets a snapshot instead of the entries that it
// has missed. Callers that wait there for a transaction that ended in them get their answer, and
// watchers of all changes learn that some are missing.
func TestASnapshotWakesWhoeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := openReplicas(t, 3, func(c *Config) {
			c.SimEnv.TuneRaft = func(r *raft.Config) { r.TrailingLogs, r.SnapshotThreshold, r.SnapshotInterval = 2, 1<<20, time.Hour }
		})
		defer c.close()
		l := c.leader()
		away := (l + 1) % 3
		n, f := c.nodes[l], c.nodes[away]
		b := begin(t, n, time.Hour)
		pass(time.Second)
		waited, watched := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := f.Wait(txn.AllowStale(t.Context()), b.ID, txn.UntilFinished)
			waited <- err
		}()
		go func() {
			for _, err := range f.Watch(t.Context(), admin.Filter{}) {
				if err != nil {
					watched <- err
				}
			}
		}()
		synctest.Wait()
		c.link(away, false)
		if _, err := n.Rollback(t.Context(), b.ID, "test"); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			begin(t, n, time.Hour)
		}
		if err := n.Snapshot(); err != nil {
			t.Fatal(err)
		}
		c.link(away, true)
		if err := <-waited; err != nil {
			t.Errorf("the wait: %v", err)
		}
		if err := <-watched; !errors.Is(err, txn.ErrUnavailable) {
			t.Errorf("the watch: %v", err)
		}
	})
}

// link cuts a node off, or connects it again.
func (c *replicas) link(i int, on bool) {
	for j, other := range c.nets {
		switch {
		case j == i:
		case on:
			other.Connect(c.servers[i].Address, c.nets[i])
			c.nets[i].Connect(c.servers[j].Address, other)
		default:
			other.Disconnect(c.servers[i].Address)
			c.nets[i].Disconnect(c.servers[j].Address)
		}
	}
}
