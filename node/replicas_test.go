package node

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/internal/simenv"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// replicas is a cluster in memory, within a synctest bubble.
type replicas struct {
	t       *testing.T
	stores  []*raft.InmemStore
	snaps   []*memorySnapshots
	nets    []*raft.InmemTransport
	nodes   []*Node // nil: it is down
	servers []raft.Server
	tune    func(*Config)
	wrap    func(i int, t *raft.InmemTransport) raft.Transport // nil: as it is
}

func openReplicas(t *testing.T, n int, tune func(*Config), wrap ...func(int, *raft.InmemTransport) raft.Transport) *replicas {
	c := &replicas{t: t, tune: tune, nodes: make([]*Node, n), nets: make([]*raft.InmemTransport, n)}
	for i := range n {
		id := fmt.Sprintf("n%d", i)
		c.servers = append(c.servers, raft.Server{ID: raft.ServerID(id), Address: raft.ServerAddress(id)})
		c.stores = append(c.stores, raft.NewInmemStore())
		c.snaps = append(c.snaps, &memorySnapshots{})
	}
	for _, w := range wrap {
		c.wrap = w
	}
	for i := range n {
		c.start(i)
	}
	return c
}

func (c *replicas) start(i int) *Node {
	c.t.Helper()
	_, c.nets[i] = raft.NewInmemTransport(c.servers[i].Address)
	for j, other := range c.nets {
		if j != i && other != nil && (c.nodes[j] != nil || i > j) {
			other.Connect(c.servers[i].Address, c.nets[i])
			c.nets[i].Connect(c.servers[j].Address, other)
		}
	}
	var net raft.Transport = c.nets[i]
	if c.wrap != nil {
		net = c.wrap(i, c.nets[i])
	}
	conf := Config{SimEnv: &simenv.Env{
		ID: c.servers[i].ID, Transport: net, Log: c.stores[i], Snapshots: c.snaps[i], Servers: c.servers,
	}}
	if c.tune != nil {
		c.tune(&conf)
	}
	n, err := Open(c.t.Context(), conf)
	if err != nil {
		c.t.Fatal(err)
	}
	c.nodes[i] = n
	return n
}

// stop cuts a node off and ends it.
func (c *replicas) stop(i int) {
	c.t.Helper()
	for j, other := range c.nets {
		if j != i {
			other.Disconnect(c.servers[i].Address)
			c.nets[i].Disconnect(c.servers[j].Address)
		}
	}
	if err := c.nodes[i].Close(); err != nil {
		c.t.Error(err)
	}
	c.nodes[i] = nil
}

func (c *replicas) close() {
	for i, n := range c.nodes {
		if n != nil {
			c.stop(i)
		}
	}
}

// leader waits until a node serves, and gives its number.
func (c *replicas) leader() int {
	c.t.Helper()
	for range 600 {
		for i, n := range c.nodes {
			if n != nil && n.requireLeader() == nil && n.requireReadable(c.t.Context()) == nil {
				return i
			}
		}
		pass(100 * time.Millisecond)
	}
	c.t.Fatal("no leader within a minute")
	return -1
}

// TestDeadlineSurvivesFailover: a deadline that was given by one leader is kept by the
// next one: not early, not extended, not forgotten.
func TestDeadlineSurvivesFailover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := openReplicas(t, 3, nil)
		defer c.close()
		first := c.leader()
		const timeout = 10 * time.Second
		b, err := c.nodes[first].Begin(t.Context(), txn.Options{Timeout: timeout})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		pass(4 * time.Second)
		c.stop(first)
		second := c.leader()
		if second == first {
			t.Fatal("the leader is the one that was stopped")
		}
		i, err := c.nodes[second].Wait(t.Context(), b.ID, txn.UntilFinished)
		took := time.Since(began)
		if err != nil || i.State != txn.RolledBack || i.Cause != txn.CauseTimeout {
			t.Fatalf("%+v, %v", i, err)
		}
		c.hashes()
		if took < timeout || took > timeout+time.Second {
			t.Errorf("it was rolled back after %v; want %v, and a second more at most", took, timeout)
		}
	})
}

// TestTransferTargetThatJustStartedIsOnTime: the clock of a restarted node continues from the last
// entry, which is old on an idle cluster. Leadership is transferred to the node a moment later, as
// in a rolling upgrade; the deadlines are unchanged.
func TestTransferTargetThatJustStartedIsOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := openReplicas(t, 3, nil)
		defer c.close()
		l := c.leader()
		const timeout = 30 * time.Second
		b := begin(t, c.nodes[l], timeout)
		began := time.Now()
		pass(19 * time.Second) // the last entry is a checkpoint, ten seconds after the begin
		target := (l + 1) % 3
		c.stop(target)
		c.start(target)
		pass(500 * time.Millisecond)
		if err := c.nodes[l].Admin().TransferLeader(t.Context(), string(c.servers[target].ID), "", ""); err != nil {
			t.Fatal(err)
		}
		if l = c.leader(); l != target {
			t.Fatalf("node %d leads; want %d", l, target)
		}
		i, err := c.nodes[target].Wait(t.Context(), b.ID, txn.UntilFinished)
		took := time.Since(began)
		if err != nil || i.Cause != txn.CauseTimeout {
			t.Fatalf("%+v, %v", i, err)
		}
		if took < timeout || took > timeout+time.Second {
			t.Errorf("it was rolled back after %v; want %v, and a second more at most", took, timeout)
		}
	})
}

// TestFollowerSaysWhoLeads: a node that does not lead refuses, and names the leader; with
// permission it answers from its own state.
func TestFollowerSaysWhoLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := openReplicas(t, 3, nil)
		defer c.close()
		l := c.leader()
		f := c.nodes[(l+1)%3]
		b, err := c.nodes[l].Begin(t.Context(), txn.Options{Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Begin(t.Context(), txn.Options{}); !errors.Is(err, txn.ErrUnavailable) {
			t.Errorf("a follower began a transaction: %v", err)
		}
		if _, err := f.Get(t.Context(), b.ID); !errors.Is(err, txn.ErrUnavailable) {
			t.Errorf("a follower answered a read as if it led: %v", err)
		}
		pass(time.Second)
		i, err := f.Get(txn.AllowStale(t.Context()), b.ID)
		if err != nil || i.State != txn.Active {
			t.Errorf("a stale read: %+v, %v", i, err)
		}
		if err := f.Ready(); err != nil {
			t.Errorf("a follower that knows the leader is ready: %v", err)
		}
		if api, here := f.Leader(); here {
			t.Errorf("a follower says it leads, at %q", api)
		}
	})
}

// TestDeposedLeaderDoesNotRead: a leader that is cut off does not answer reads with
// what may be old by now.
func TestDeposedLeaderDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := openReplicas(t, 3, nil)
		defer c.close()
		old := c.leader()
		b, err := c.nodes[old].Begin(t.Context(), txn.Options{Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		for j := range c.nets {
			if j != old {
				c.nets[j].Disconnect(c.servers[old].Address)
				c.nets[old].Disconnect(c.servers[j].Address)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if i, err := c.nodes[old].Get(ctx, b.ID); err == nil {
			t.Errorf("it answered %v", i.State)
		}
	})
}

// hashes compares the replicas' states.
func (c *replicas) hashes() {
	c.t.Helper()
	var want uint64
	pass(time.Second)
	for i, n := range c.nodes {
		if n == nil {
			continue
		}
		var h uint64
		n.fsm.View(func(m *machine.Machine) { h = m.Hash() })
		if want == 0 {
			want = h
		}
		if h != want {
			c.t.Errorf("node %d has another state than the first", i)
		}
	}
}

// TestASuspendedLeaderGivesNoEarlyDeadline: while the virtual machine of a leader is suspended,
// for less than an election timeout, its clock stands still and those of the followers go on. A
// deadline that it gives afterwards does not expire early by the count of the follower that leads
// next, though that learns of it only after the leader's death; and it is not set back either.
func TestASuspendedLeaderGivesNoEarlyDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stood [3]atomic.Int64
		c := openReplicas(t, 3, func(c *Config) {
			own := &stood[c.SimEnv.ID[1]-'0']
			c.SimEnv.Monotonic = func() time.Time { return time.Now().Add(-time.Duration(own.Load())) }
		})
		defer c.close()
		first := c.leader()
		begin(t, c.nodes[first], time.Hour)
		for range 5 {
			pass(time.Second)
			stood[first].Add(int64(400 * time.Millisecond))
		}
		const timeout = 6 * time.Second
		b := begin(t, c.nodes[first], timeout)
		began := time.Now()
		c.stop(first)
		second := c.leader()
		i, err := c.nodes[second].Wait(t.Context(), b.ID, txn.UntilFinished)
		took := time.Since(began)
		if err != nil || i.Cause != txn.CauseTimeout {
			t.Fatalf("%+v, %v", i, err)
		}
		if took < timeout || took > timeout+500*time.Millisecond {
			t.Errorf("it was rolled back after %v; want %v, and half a second more at most", took, timeout)
		}
	})
}
