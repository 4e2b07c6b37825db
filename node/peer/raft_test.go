package peer

import (
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/internal/certs"
	"github.com/txmgr/txmgr/internal/waittest"
)

// counter is a state machine that counts entries.
type counter struct {
	mu sync.Mutex
	n  uint64
}

func (c *counter) Apply(*raft.Log) any {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return c.n
}

func (c *counter) count() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

func (c *counter) Snapshot() (raft.FSMSnapshot, error) { return frozen(c.count()), nil }

func (c *counter) Restore(r io.ReadCloser) error {
	defer r.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := fmt.Fscan(r, &c.n)
	return err
}

type frozen uint64

func (f frozen) Persist(s raft.SnapshotSink) error {
	if _, err := fmt.Fprintf(s, "%d %0*d", uint64(f), 1<<20, 0); err != nil {
		return err
	}
	return s.Close()
}

func (frozen) Release() {}

// replica is a node that runs raft over its server.
type replica struct {
	*node
	raft  *raft.Raft
	state *counter
}

func (r *replica) server() raft.Server {
	return raft.Server{ID: raft.ServerID(r.identity().ID), Address: raft.ServerAddress(r.Addr())}
}

// run starts raft; it knows the servers when first is not empty.
func (r *replica) run(t *testing.T, first ...raft.Server) {
	t.Helper()
	conf := raft.DefaultConfig()
	conf.LocalID, conf.Logger = r.server().ID, hclog.NewNullLogger()
	conf.HeartbeatTimeout, conf.ElectionTimeout, conf.LeaderLeaseTimeout = 300*time.Millisecond, 300*time.Millisecond, 200*time.Millisecond
	conf.CommitTimeout = 10 * time.Millisecond
	conf.TrailingLogs = 1
	store, snaps := raft.NewInmemStore(), raft.NewInmemSnapshotStore()
	r.state = &counter{}
	if len(first) > 0 {
		if err := raft.BootstrapCluster(conf, store, store, snaps, r.Transport(), raft.Configuration{Servers: first}); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if r.raft, err = raft.NewRaft(conf, r.state, store, store, snaps, r.Transport()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.stop() })
}

func (r *replica) stop() error { return r.raft.Shutdown().Error() }

func leader(t *testing.T, of ...*replica) *replica {
	t.Helper()
	var found *replica
	waittest.Until(t, "a leader", func() bool {
		for _, r := range of {
			if r.raft.State() == raft.Leader && r.raft.VerifyLeader().Error() == nil {
				found = r
				return true
			}
		}
		return false
	})
	return found
}

func apply(t *testing.T, r *replica, n int) {
	t.Helper()
	var last raft.ApplyFuture
	for range n {
		last = r.raft.Apply([]byte("entry"), testTimeout)
	}
	if err := last.Error(); err != nil {
		t.Fatal(err)
	}
}

// Three nodes elect a leader and replicate; one comes late and gets a snapshot; the
// leader dies.
func TestRaft(t *testing.T) {
	a := authority(t, "bank")
	for name, tls := range map[string]func(id string) func(*Config){
		"plain": func(string) func(*Config) { return func(*Config) {} },
		"TLS":   func(id string) func(*Config) { return certified(t, a, id, certs.RolePeer) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var all []*replica
			for _, id := range []string{"n_a", "n_b", "n_c"} {
				all = append(all, &replica{node: start(t, id, tls(id))})
			}
			early, late := all[:2], all[2]
			for _, r := range early {
				r.run(t, early[0].server(), early[1].server())
			}
			l := leader(t, early...)
			apply(t, l, 300)
			if err := l.raft.Snapshot().Error(); err != nil {
				t.Fatal(err)
			}
			late.run(t)
			if err := l.raft.AddVoter(late.server().ID, late.server().Address, 0, testTimeout).Error(); err != nil {
				t.Fatal(err)
			}
			apply(t, l, 300)
			for _, r := range all {
				waittest.Until(t, "600 entries at "+r.identity().ID, func() bool { return r.state.count() == 600 })
			}
			if err := l.stop(); err != nil {
				t.Fatal(err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			var rest []*replica
			for _, r := range all {
				if r != l {
					rest = append(rest, r)
				}
			}
			apply(t, leader(t, rest...), 100)
			for _, r := range rest {
				waittest.Until(t, "700 entries at "+r.identity().ID, func() bool { return r.state.count() == 700 })
			}
		})
	}
}

// A node of another cluster, which knows the address and the id of one of ours, gets
// no vote and no entry across; nor does one that was removed.
func TestRaftRefuses(t *testing.T) {
	for name, spoil := range map[string]func(ours, other *node){
		"another cluster":     func(_, other *node) { other.update(func(i *Identity) { i.Cluster = "d" }) },
		"another incarnation": func(_, other *node) { other.update(func(i *Identity) { i.Incarnation = 1 }) },
		"removed":             func(ours, _ *node) { ours.remove("n_b") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ours := &replica{node: start(t, "n_a")}
			other := &replica{node: start(t, "n_b")}
			spoil(ours.node, other.node)
			ours.run(t)
			other.run(t, ours.server(), other.server())
			waittest.Until(t, "several elections", func() bool { return other.raft.Stats()["state"] == "Candidate" && ours.log.count("was refused") > 0 })
			for _, ask := range []func(Transport) error{
				func(tr Transport) error {
					return tr.RequestVote("n_a", ours.server().Address, &raft.RequestVoteRequest{Term: 9}, &raft.RequestVoteResponse{})
				},
				func(tr Transport) error {
					return tr.AppendEntries("n_a", ours.server().Address, &raft.AppendEntriesRequest{Term: 9}, &raft.AppendEntriesResponse{})
				},
			} {
				if err := ask(other.Transport()); err == nil {
					t.Error("it was answered")
				}
			}
			if term := ours.raft.Stats()["term"]; term != "0" {
				t.Errorf("our term is %s, want 0: a stranger was heard", term)
			}
			if n := ours.log.count("a node was refused"); n != 1 {
				t.Errorf("%d warnings for many attempts, want 1:\n%v", n, ours.log)
			}
			if n := other.log.count("no way to a node"); n != 1 {
				t.Errorf("%d warnings at the refused node, want 1:\n%v", n, other.log)
			}
		})
	}
}
