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
)

// TestRestoredClusterIsHeld restores a cluster from a snapshot that was taken between a
// decision and its phase two. What the participants have prepared is left alone until
// somebody says that it may act; and that of which the restored cluster knows nothing also
// then: it may have been decided after the backup.
func TestRestoredClusterIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTrial(t, Plan{Seed: 1, Nodes: 3, Faced: time.Second, Apps: 1})
		defer x.end()
		web := x.w.web
		id := txn.NewID(time.Now(), x.dice.chance())
		decided := x.decide(t, id)
		stranger := txn.XID(x.status(t).Cluster, txn.NewID(time.Now(), x.dice.chance()), 1)
		web.mu.Lock()
		web.states[stranger], web.since[stranger] = webPrepared, time.Now()
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
		rest(time.Minute)
		if s := x.status(t); !s.Held || s.Incarnation != 1 || s.Undone != 1 {
			t.Errorf("after a minute: %+v; want it held, of incarnation 1, with one undone", s)
		}
		promised("while it is held", map[string]webState{decided: webPrepared, stranger: webPrepared})
		if _, err := x.leader.node.Begin(t.Context(), txn.Options{ID: txn.NewID(time.Now(), x.dice.chance())}); !errors.Is(err, txn.ErrUnavailable) {
			t.Errorf("begin while it is held: %v; want that it is unavailable", err)
		}
		if i, err := x.leader.node.Get(t.Context(), id); err != nil || i.State != txn.Committing {
			t.Errorf("get while it is held: %v, %v; want it committing", i.State, err)
		}
		if err := x.leader.node.Resume(t.Context(), "somebody", "the old cluster is gone for good"); err != nil {
			t.Fatal(err)
		}
		rest(time.Minute)
		promised("a minute after it was resumed", map[string]webState{decided: webCommitted, stranger: webPrepared})
		rest(time.Second) // an id without a mark is from after the resume when a minute has passed
		x.write(t, 1)
	})
}

// decide makes a transaction that is decided, and of which the participant does not
// hear. It gives its branch's name.
func (x *trial) decide(t *testing.T, id txn.ID) (xid string) {
	t.Helper()
	n := x.leader.node
	if _, err := n.Begin(t.Context(), txn.Options{ID: id}); err != nil {
		t.Fatal(err)
	}
	b, err := n.Enlist(t.Context(), id, txn.Enlistment{Participant: "post", Payload: []byte("yes")})
	if err != nil {
		t.Fatal(err)
	}
	x.w.all.Go(func() { _, _ = n.Commit(x.w.ctx, id, txn.Commitment{}) })
	for began := x.w.now(); ; rest(20 * time.Microsecond) {
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
	rest(time.Second)
	if i, err := n.Get(t.Context(), id); err != nil || i.State != txn.Committing {
		t.Fatalf("%v, %v; want it committing", i.State, err)
	}
	return b.XID
}

// restore ends the cluster, and makes one of one node from the leader's last snapshot.
func (x *trial) restore(t *testing.T) {
	t.Helper()
	x.snapshot(t, x.leader)
	old := x.newest(x.leader)
	for _, h := range x.w.hosts {
		h.crash()
	}
	x.w.stop() // whoever has called the old one
	x.w.net.heal()
	h := newHost(x.w, len(x.w.hosts))
	var body bytes.Buffer
	if err := raftfsm.Reincarnate(&body, bytes.NewReader(old.body)); err != nil {
		t.Fatal(err)
	}
	meta := old.meta
	meta.ID, meta.Size = "restored", int64(body.Len())
	meta.Configuration = raft.Configuration{Servers: []raft.Server{{ID: raft.ServerID(h.name), Address: h.addr}}}
	meta.ConfigurationIndex = 1
	h.disk.snapshots = []*image{{meta, body.Bytes()}}
	if err := h.disk.SetUint64([]byte("CurrentTerm"), meta.Term); err != nil {
		t.Fatal(err)
	}
	x.w.hosts = []*host{h}
	h.start()
	rest(10 * time.Second)
	if x.leader = x.w.leader(); x.leader == nil {
		t.Fatalf("the restored node does not lead\n%s", x.w.Story())
	}
}

func (x *trial) status(t *testing.T) txn.Status {
	t.Helper()
	s, err := x.leader.node.Status(txn.AllowStale(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	return s
}
