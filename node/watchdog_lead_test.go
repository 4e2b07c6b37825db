package node

import (
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/raftfsm"
	"github.com/txmgr/txmgr/txn"
)

// openThreeWatched opens three nodes, the leader first, whose failures are sent on the channel.
func openThreeWatched(t *testing.T, options ...func(*Config)) ([]*Node, <-chan error) {
	t.Helper()
	failed := make(chan error, 3)
	addr := freePorts(t, 3)
	var nodes []*Node
	for i, a := range addr {
		conf := Config{
			DataDir: t.TempDir(), Logger: slog.New(slog.DiscardHandler), OnFailure: func(err error) { failed <- err },
			Cluster: &Cluster{Listen: a, Name: string(rune('a' + i)), Expect: 3, Join: addr},
		}
		for _, o := range options {
			o(&conf)
		}
		n, err := Open(t.Context(), conf)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = n.Close() })
		nodes = append(nodes, n)
	}
	l := leaderOf(t, nodes...)
	for i := range nodes {
		if nodes[i] == l {
			nodes[0], nodes[i] = nodes[i], nodes[0]
		}
	}
	return nodes, failed
}

// elects makes one node transfer leadership to another.
func elects(t *testing.T, from, to *Node) {
	t.Helper()
	waittest.Until(t, "the node is elected", func() bool {
		_ = from.Admin().TransferLeader(t.Context(), string(to.env.ID), "", "") // refused until the leader is up to date
		return to.raft.State() == raft.Leader
	})
}

// writesAt waits until one of the nodes takes a write.
func writesAt(t *testing.T, nodes ...*Node) {
	t.Helper()
	waittest.Until(t, "another node leads and takes writes", func() bool {
		for _, n := range nodes {
			if _, err := n.Begin(t.Context(), txn.Options{Timeout: time.Hour}); err == nil {
				return true
			}
		}
		return false
	})
}

// TestLeaderThatHangsWhileTakingOver: raft has elected a node that does not complete taking over.
// No call waits for its log, since each is refused before. Another node leads all the same.
func TestLeaderThatHangsWhileTakingOver(t *testing.T) {
	t.Parallel()
	var hangs sync.Map // names of nodes that hang
	hold := make(chan struct{})
	release := sync.OnceFunc(func() { close(hold) })
	n, failed := openThreeWatched(t, func(c *Config) {
		name := c.Cluster.Name
		c.hooks.takingOver = func() {
			if _, ok := hangs.Load(name); ok {
				<-hold
			}
		}
	})
	defer release() // also where the test fails: the nodes close next
	hangs.Store(n[1].conf.Cluster.Name, true)
	elects(t, n[0], n[1])
	writesAt(t, n[0], n[2])
	if err := n[1].Ready(); err != nil && n[1].stallError() == nil {
		t.Errorf("the node that handed leadership over is not ready: %v", err)
	}
	dumped(t, n[1])
	release()
	elects(t, leaderOf(t, n[0], n[2]), n[1])
	leaderOf(t, n[1])
	select {
	case err := <-failed:
		t.Errorf("a node that could hand leadership over failed: %v", err)
	default:
	}
}

// TestLeaderThatHangsWhileItEndsThePreviousTerm: a node is elected again, and something of its
// previous term as leader does not end, so that it cannot take over. Another node leads all the
// same.
func TestLeaderThatHangsWhileItEndsThePreviousTerm(t *testing.T) {
	t.Parallel()
	n, failed := openThreeWatched(t)
	hold := make(chan struct{})
	release := sync.OnceFunc(func() { close(hold) })
	defer release()
	n[0].terms.present.Load().done.Go(func() { <-hold })
	elects(t, n[0], n[1])
	elects(t, leaderOf(t, n[1:]...), n[0])
	writesAt(t, n[1:]...)
	dumped(t, n[0])
	release()
	elects(t, leaderOf(t, n[1:]...), n[0])
	leaderOf(t, n[0])
	select {
	case err := <-failed:
		t.Errorf("a node that could hand leadership over failed: %v", err)
	default:
	}
}

// TestOnlyVoterThatDoesNotTakeOverEnds: no other node can lead, so only a restart helps. A node
// that still applies its log is not ended.
func TestOnlyVoterThatDoesNotTakeOverEnds(t *testing.T) {
	t.Parallel()
	n, failed := onlyVoter(t)
	n.terms.present.Load().leading.Store(false)
	w := newWatchdog(n)
	takeOver := w.checks[len(w.checks)-1]
	for range exitPolls {
		if _, err := n.fsm.Snapshot(); err != nil { // a step, as each entry is
			t.Fatal(err)
		}
		// The polls follow each other within microseconds, so that calls of the node's own may wait
		// for the log at several.
		if w.check(); takeOver.polls > 1 {
			t.Fatalf("no progress for %d looks although entries are applied: %s", takeOver.polls, takeOver.what)
		}
	}
	// An entry of the node's own that is on its way to the disk, or is applied meanwhile, makes it take longer.
	waittest.Until(t, "the only voter that does not take over is ended", func() bool {
		for range exitPolls {
			w.act(w.check())
		}
		return n.logFailure() != nil
	})
	<-failed
	dumped(t, n)
	n.terms.present.Load().leading.Store(true)
}

// TestOnlyVoterHasTimeForAWriteThatHangs: raft answers nothing while a write to disk does not
// return. Without a node to transfer leadership to, raft is asked nothing either, and the disk has
// as long as that of a single node.
func TestOnlyVoterHasTimeForAWriteThatHangs(t *testing.T) {
	t.Parallel()
	var disk sync.Mutex // held: raft's goroutine hangs on the way to the disk, where it reads the clock
	n, failed := onlyVoter(t, func(c *Config) {
		c.monotonic = func() time.Time {
			disk.Lock()
			defer disk.Unlock()
			return time.Now()
		}
	})
	buf := raftfsm.AppendHeader(nil)
	if err := raftfsm.FinishEntry(buf, 1, time.Now().UnixMilli(), 0); err != nil {
		t.Fatal(err)
	}
	disk.Lock()
	future := n.raft.ApplyLog(raftfsm.WithTerm(buf, n.terms.latest.Load()+1), 0)
	newWatchdog(n).act("calls wait for the log", stallPolls)
	select {
	case err := <-failed:
		t.Errorf("a write that hangs for %v ended the only voter: %v", time.Duration(stallPolls)*watchdogInterval, err)
	default:
	}
	dumped(t, n)
	disk.Unlock()
	if err := future.Error(); err != nil {
		t.Errorf("the write: %v", err)
	}
}
