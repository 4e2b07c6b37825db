package sim

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/raftfsm"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// TestRestoredClusterIsHeld restores a cluster from a snapshot that was taken between a decision
// and its phase two. Recovery is paused: prepared branches are unchanged until an operator resumes
// it; and those that the restored cluster does not know also after that: they may have been decided
// after the backup.
func TestRestoredClusterIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTestCluster(t, Plan{Seed: 1, Nodes: 3, FaultTime: time.Second, Apps: 1})
		defer x.end()
		web := x.w.web
		id := txn.NewID(time.Now(), x.rng.entropy())
		decided := x.decide(t, id)
		outsider := txn.XID(x.status(t).Cluster, txn.NewID(time.Now(), x.rng.entropy()), 1)
		web.mu.Lock()
		web.states[outsider], web.since[outsider] = webPrepared, time.Now()
		web.mu.Unlock()
		x.restore(t)

		promised := func(when string, want map[string]webState) {
			t.Helper()
			web.mu.Lock()
			defer web.mu.Unlock()
			for xid, state := range want {
				if web.states[xid] != state {
					t.Errorf("%s %s is %d; want %d", when, xid, web.states[xid], state)
				}
			}
		}
		sleep(time.Minute)
		if s := x.status(t); !s.RecoveryPaused || s.Incarnation != 1 || s.Completing != 1 {
			t.Errorf("after a minute: %+v; want it held, of incarnation 1, with one undone", s)
		}
		promised("while it is held", map[string]webState{decided: webPrepared, outsider: webPrepared})
		if _, err := x.leader.node.Begin(t.Context(), txn.Options{ID: txn.NewID(time.Now(), x.rng.entropy())}); !errors.Is(err, txn.ErrUnavailable) {
			t.Errorf("begin while it is held: %v; want that it is unavailable", err)
		}
		if i, err := x.leader.node.Get(t.Context(), id); err != nil || i.State != txn.Committing {
			t.Errorf("get while it is held: %v, %v; want it committing", i.State, err)
		}
		if err := x.leader.node.Admin().ResumeRecovery(t.Context(), "ann", "the old cluster is gone for good"); err != nil {
			t.Fatal(err)
		}
		sleep(time.Minute)
		promised("a minute after it was resumed", map[string]webState{decided: webCommitted, outsider: webPrepared})
		sleep(time.Second) // an id without a mark counts as made after the resume when a minute has passed
		x.write(t, 1)
	})
}

// decide makes a transaction that is decided, and whose participant does not receive the decision.
// It returns the branch's name.
func (x *testCluster) decide(t *testing.T, id txn.ID) (xid string) {
	t.Helper()
	n := x.leader.node
	if _, err := n.Begin(t.Context(), txn.Options{ID: id}); err != nil {
		t.Fatal(err)
	}
	b, err := n.Enlist(t.Context(), id, txn.Enlistment{Participant: "post", Payload: []byte("yes")})
	if err != nil {
		t.Fatal(err)
	}
	x.w.all.Go(func() { _, _ = n.Commit(x.w.ctx, id, txn.CommitRequest{}) })
	for began := x.w.now(); ; sleep(20 * time.Microsecond) {
		x.w.web.mu.Lock()
		prepared := x.w.web.states[b.XID] == webPrepared
		x.w.web.mu.Unlock()
		if prepared {
			break
		}
		if x.w.now() > began+5*time.Second {
			t.Fatal("it is not asked to prepare")
		}
	}
	x.w.net.change(func(net *network) {
		for i := range x.w.hosts {
			net.reads[[2]int{i, x.w.web.index}] = true
		}
	})
	sleep(time.Second)
	if i, err := n.Get(t.Context(), id); err != nil || i.State != txn.Committing {
		t.Fatalf("%v, %v; want it committing", i.State, err)
	}
	return b.XID
}

// restore ends the cluster, and creates one of one node from the leader's last snapshot.
func (x *testCluster) restore(t *testing.T) {
	t.Helper()
	x.snapshot(t, x.leader)
	old := x.newest(x.leader)
	for _, h := range x.w.hosts {
		h.crash()
	}
	x.w.stop() // callers of the old one
	x.w.net.heal()
	h := newHost(x.w, len(x.w.hosts))
	var body bytes.Buffer
	if err := raftfsm.CopyAsNewIncarnation(&body, bytes.NewReader(old.body)); err != nil {
		t.Fatal(err)
	}
	meta := old.meta
	meta.ID, meta.Size = "restored", int64(body.Len())
	meta.Configuration = raft.Configuration{Servers: []raft.Server{{ID: raft.ServerID(h.name), Address: h.addr}}}
	meta.ConfigurationIndex = 1
	h.disk.snapshots = []*snapshotImage{{meta, body.Bytes()}}
	if err := h.disk.SetUint64([]byte("CurrentTerm"), meta.Term); err != nil {
		t.Fatal(err)
	}
	x.w.hosts = []*host{h}
	h.start()
	sleep(10 * time.Second)
	if x.leader = x.w.leader(); x.leader == nil {
		t.Fatalf("the restored node does not lead\n%s", x.w.Trace())
	}
}

func (x *testCluster) status(t *testing.T) admin.Status {
	t.Helper()
	s, err := x.leader.node.Admin().Status(txn.AllowStale(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	return s
}
