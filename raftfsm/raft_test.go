package raftfsm

import (
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

const patience = 20 * time.Second

// peer is a raft node of its own in this process: its log is in memory, its snapshots are files.
type peer struct {
	id        raft.ServerID
	logs      *raft.InmemStore
	snapshots raft.SnapshotStore
	transport *raft.InmemTransport

	*FSM
	*raft.Raft

	mu       sync.Mutex
	moved    *sync.Cond // applied or restored changed
	applied  uint64
	restores int
	failures []error
}

func newPeer(t *testing.T, name string) *peer {
	t.Helper()
	snapshots, err := raft.NewFileSnapshotStore(t.TempDir(), 2, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{id: raft.ServerID(name), logs: raft.NewInmemStore(), snapshots: snapshots}
	p.moved = sync.NewCond(&p.mu)
	_, p.transport = raft.NewInmemTransport(raft.ServerAddress(name))
	return p
}

// start brings the peer up, with an empty FSM: whatever it knows then, it knows from its stores. The returned function
// takes it down again.
func (p *peer) start(t *testing.T) (stop func()) {
	t.Helper()
	note := func(f func()) {
		p.mu.Lock()
		f()
		p.mu.Unlock()
		p.moved.Broadcast()
	}
	p.FSM = New(Config{
		OnApply:   func(at Position, _ *machine.Effects, _ survival.Tick) { note(func() { p.applied = at.Index }) },
		OnRestore: func(survival.Tick) { note(func() { p.restores++ }) },
		OnFailure: func(err error) { note(func() { p.failures = append(p.failures, err) }) },
	})
	c := raft.DefaultConfig()
	c.LocalID = p.id
	c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = 200*time.Millisecond, 200*time.Millisecond, 100*time.Millisecond
	c.TrailingLogs = 1
	c.Logger = hclog.NewNullLogger()
	r, err := raft.NewRaft(c, p.FSM, p.logs, p.logs, p.snapshots, p.transport)
	if err != nil {
		t.Fatal(err)
	}
	p.Raft = r
	return sync.OnceFunc(func() {
		if err := r.Shutdown().Error(); err != nil {
			t.Errorf("shutting down: %v", err)
		}
	})
}

// await returns when cond holds, which is checked after every call of the FSM.
func (p *peer) await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	late := false
	timer := time.AfterFunc(patience, func() {
		p.mu.Lock()
		late = true
		p.mu.Unlock()
		p.moved.Broadcast()
	})
	defer timer.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for !cond() {
		if late {
			t.Fatalf("%s: still not %s after %v", p.id, what, patience)
		}
		p.moved.Wait()
	}
}

func (p *peer) lead(t *testing.T) {
	t.Helper()
	select {
	case <-p.LeaderCh():
	case <-time.After(patience):
		t.Fatalf("%s: no leader after %v", p.id, patience)
	}
}

func (p *peer) propose(t *testing.T, e machine.Entry) *Applied {
	t.Helper()
	f := p.Raft.Apply(mustEncode(t, e), patience)
	if err := f.Error(); err != nil {
		t.Fatal(err)
	}
	a, ok := f.Response().(*Applied)
	if !ok {
		t.Fatalf("answer: %v", f.Response())
	}
	if a.Index != f.Index() {
		t.Errorf("answer has index %d, entry has %d", a.Index, f.Index())
	}
	return a
}

func begins(first, last byte) machine.Entry {
	e := machine.Entry{Tick: survival.Tick(first)}
	for n := first; n <= last; n++ {
		e.Commands = append(e.Commands, machine.Begin{
			ID: id(n), Timeout: time.Minute, Expiry: 1000 + survival.Tick(n%5),
			Branches: []machine.Branch{{Participant: "orders", Payload: []byte{n}}},
		})
	}
	return e
}

// TestRestart: a restarted node has the state with which it stopped, from its snapshot and the log
// after it.
func TestRestart(t *testing.T) {
	p := newPeer(t, "a")
	stop := p.start(t)
	defer func() { stop() }()
	servers := raft.Configuration{Servers: []raft.Server{{ID: "a", Address: p.transport.LocalAddr()}}}
	if err := p.BootstrapCluster(servers).Error(); err != nil {
		t.Fatal(err)
	}
	p.lead(t)
	p.propose(t, setup())
	p.propose(t, begins(1, 60))
	if err := p.Raft.Snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	p.propose(t, begins(61, 99))
	last := p.propose(t, machine.Entry{Tick: 1002})
	if len(last.Effects.Pending) != 59 {
		t.Errorf("the tick ended %d transactions; want 59", len(last.Effects.Pending))
	}
	before := fingerprint(p.FSM)
	stop()

	p.applied, p.restores = 0, 0
	stop = p.start(t)
	p.await(t, "as far as before", func() bool { return p.applied >= last.Index })
	if p.restores != 1 || fingerprint(p.FSM) != before {
		t.Errorf("restored %d times, state equal: %v", p.restores, fingerprint(p.FSM) == before)
	}
}

// TestFollowerInstallsSnapshot: a new node gets the state by a snapshot over the network, and goes
// on from there.
func TestFollowerInstallsSnapshot(t *testing.T) {
	a, b := newPeer(t, "a"), newPeer(t, "b")
	a.transport.Connect("b", b.transport)
	b.transport.Connect("a", a.transport)
	defer a.start(t)()
	servers := raft.Configuration{Servers: []raft.Server{{ID: "a", Address: "a"}}}
	if err := a.BootstrapCluster(servers).Error(); err != nil {
		t.Fatal(err)
	}
	a.lead(t)
	a.propose(t, setup())
	for n := byte(1); n < 120; n++ {
		a.propose(t, begins(n, n))
	}
	if err := a.Raft.Snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	defer b.start(t)()
	// Without a vote: however late b is, a goes on leading.
	if err := a.AddNonvoter("b", "b", 0, patience).Error(); err != nil {
		t.Fatal(err)
	}
	last := a.propose(t, machine.Entry{Tick: 1003, Commands: []machine.Command{
		machine.ReportCompletion{ID: id(3), Reports: []txn.CompletionReport{{Branch: 1, State: txn.BranchRolledBack}}},
	}})
	b.await(t, "level with the leader", func() bool { return b.applied >= last.Index })
	if b.restores != 1 || fingerprint(b.FSM) != fingerprint(a.FSM) {
		t.Errorf("restored %d times, state equal: %v", b.restores, fingerprint(b.FSM) == fingerprint(a.FSM))
	}
}

// TestBadEntryInTheLog: what cannot be read is answered with the reason, on every node, and raft gets no snapshot of it.
func TestBadEntryInTheLog(t *testing.T) {
	p := newPeer(t, "a")
	defer p.start(t)()
	servers := raft.Configuration{Servers: []raft.Server{{ID: "a", Address: p.transport.LocalAddr()}}}
	if err := p.BootstrapCluster(servers).Error(); err != nil {
		t.Fatal(err)
	}
	p.lead(t)
	p.propose(t, setup())
	bad := mustEncode(t, begins(1, 1))
	bad[HeaderSize]++
	f := p.Raft.Apply(bad, patience)
	if err := f.Error(); err != nil {
		t.Fatal(err)
	}
	if err, _ := f.Response().(error); !errors.Is(err, ErrCorrupt) {
		t.Errorf("answer: %v", f.Response())
	}
	p.await(t, "failed", func() bool { return len(p.failures) == 1 })
	if err := p.Raft.Snapshot().Error(); err == nil {
		t.Error("raft has stored a snapshot with a gap")
	}
}
