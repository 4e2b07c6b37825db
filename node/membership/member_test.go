package membership

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/internal/random"
	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/node/peer"
	"github.com/txmgr/txmgr/node/proposal"
	"github.com/txmgr/txmgr/node/storage"
	"github.com/txmgr/txmgr/node/ticks"
	"github.com/txmgr/txmgr/raftfsm"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// member is a node that has a log and a place in a cluster, and nothing else.
type member struct {
	*Cluster

	storage *storage.Storage
	leading atomic.Bool
	cancel  context.CancelFunc
	done    sync.WaitGroup
	once    sync.Once
}

// open opens a node that listens at an address.
func open(t *testing.T, dir, listen string, expect int, join ...string) *member {
	t.Helper()
	s, err := storage.Open(dir, 0, func(err error) { t.Error(err) }, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	fsm := raftfsm.New(raftfsm.Config{})
	m := &member{storage: s, cancel: cancel}
	m.Cluster = New(Config{
		Self: peer.Identity{ID: string(s.ID), Name: listen, Expect: expect}, Join: join,
		Log: s.Log, View: fsm.View, Node: m, Context: ctx, Logger: slog.New(slog.DiscardHandler),
	})
	transport, err := m.Listen(peer.Config{Listen: listen})
	if err != nil {
		t.Fatal(err)
	}
	conf := raft.DefaultConfig()
	conf.LocalID, conf.Logger, conf.ShutdownOnRemove = s.ID, hclog.NewNullLogger(), false
	conf.HeartbeatTimeout, conf.ElectionTimeout, conf.LeaderLeaseTimeout = 500*time.Millisecond, 500*time.Millisecond, 500*time.Millisecond
	r, err := raft.NewRaft(conf, fsm, s.Log, s.Log, s.Snapshots, transport)
	if err != nil {
		t.Fatal(err)
	}
	m.Start(r, proposal.New(r, ticks.NewClock(nil), time.Now))
	m.done.Go(m.Run)
	m.done.Go(func() { m.monitorLeadership(ctx) })
	t.Cleanup(m.stop)
	return m
}

// monitorLeadership does what a node does when it leads: it writes the cluster's configuration, and
// runs autopilot.
func (m *member) monitorLeadership(ctx context.Context) {
	for m.awaitLeadership(ctx, true) {
		term, stop := context.WithCancel(ctx)
		m.done.Go(func() { m.lead(term) })
		m.awaitLeadership(ctx, false)
		stop()
		m.leading.Store(false)
		m.proposals.SetTerm(0)
	}
}

// awaitLeadership waits until raft leads here, or does not; false when the node is stopped.
func (m *member) awaitLeadership(ctx context.Context, want bool) bool {
	for {
		select {
		case leads := <-m.raft.LeaderCh():
			if leads == want {
				return true
			}
		case <-ctx.Done():
			return false
		}
	}
}

func (m *member) lead(term context.Context) {
	if m.raft.Barrier(0).Error() != nil {
		return
	}
	m.proposals.SetTerm(m.raft.CurrentTerm())
	if m.clusterIdentity().Cluster == "" {
		boot := machine.Bootstrap{Cluster: random.Letters(6), Interval: time.Second, Retention: time.Hour, Retain: 1000}
		if _, err := m.proposals.Propose(term, boot); err != nil {
			return
		}
	}
	m.leading.Store(true)
	m.RunAutopilot(term)
}

// stop stops the node. Its directory can be opened again.
func (m *member) stop() {
	m.once.Do(func() {
		m.cancel()
		m.done.Wait()
		m.proposals.Close()
		_ = m.Close()
		_ = m.raft.Shutdown().Error()
		_ = m.storage.Log.Close()
	})
}

// write commits an entry.
func (m *member) write(t *testing.T) error {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := m.proposals.Propose(ctx, machine.SetMember{})
	return err
}

// IsLeader implements [Node].
func (m *member) IsLeader() bool { return m.leading.Load() }

// RequireLeader implements [Node].
func (m *member) RequireLeader() error {
	if !m.IsLeader() {
		return fmt.Errorf("%w: this node does not lead", txn.ErrUnavailable)
	}
	return nil
}

// ProposeTick implements [Node].
func (m *member) ProposeTick(context.Context) {}

// Background implements [Node].
func (m *member) Background(f func()) bool {
	m.done.Go(f)
	return true
}

// bootstrapped is a cluster of one node.
func bootstrapped(t *testing.T, addr string) *member {
	t.Helper()
	return leaderOf(t, open(t, t.TempDir(), addr, 1))
}

// leaderOf waits until one of the nodes leads.
func leaderOf(t *testing.T, nodes ...*member) (leader *member) {
	t.Helper()
	waittest.Until(t, "one leads", func() bool {
		for _, m := range nodes {
			if m.IsLeader() {
				leader = m
				return true
			}
		}
		return false
	})
	return leader
}

func freePorts(t *testing.T, n int) []string {
	t.Helper()
	var out []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		out = append(out, l.Addr().String())
	}
	return out
}
