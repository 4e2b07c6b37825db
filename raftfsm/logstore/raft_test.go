package logstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/internal/waittest"
)

// tally is a state machine that remembers every command in order.
type tally struct {
	mu   sync.Mutex
	seen []uint64
}

func (f *tally) Apply(l *raft.Log) any {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = append(f.seen, binary.BigEndian.Uint64(l.Data))
	return nil
}

func (f *tally) Snapshot() (raft.FSMSnapshot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return tallySnapshot(append([]uint64(nil), f.seen...)), nil
}

func (f *tally) Restore(r io.ReadCloser) error {
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = nil
	for ; len(b) >= 8; b = b[8:] {
		f.seen = append(f.seen, binary.BigEndian.Uint64(b))
	}
	return nil
}

// wantUpTo checks that the commands 1..n were applied, each once and in order.
func (f *tally) wantUpTo(t *testing.T, n uint64) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if uint64(len(f.seen)) != n {
		t.Errorf("%d commands applied, want %d", len(f.seen), n)
		return
	}
	for i, v := range f.seen {
		if v != uint64(i+1) {
			t.Errorf("command %d in the place of %d", v, i+1)
			return
		}
	}
}

type tallySnapshot []uint64

func (s tallySnapshot) Persist(sink raft.SnapshotSink) error {
	for _, v := range s {
		if _, err := sink.Write(binary.BigEndian.AppendUint64(nil, v)); err != nil {
			return errors.Join(err, sink.Cancel())
		}
	}
	return sink.Close()
}

func (tallySnapshot) Release() {}

// raftNode is a real raft node on a Store and a FileSnapshotStore.
type raftNode struct {
	id    raft.ServerID
	dir   string
	raft  *raft.Raft
	store *Store
	trans *raft.InmemTransport
	fsm   *tally
}

func (n *raftNode) path() string { return filepath.Join(n.dir, "raft.db") }

func startRaft(t *testing.T, id, dir string, voters []string, tune func(*raft.Config)) *raftNode {
	t.Helper()
	n := &raftNode{id: raft.ServerID(id), dir: dir, fsm: &tally{}}
	conf := raft.DefaultConfig()
	conf.LocalID = n.id
	conf.Logger = hclog.NewNullLogger()
	conf.HeartbeatTimeout, conf.ElectionTimeout = 150*time.Millisecond, 150*time.Millisecond
	conf.LeaderLeaseTimeout, conf.CommitTimeout = 100*time.Millisecond, 5*time.Millisecond
	conf.SnapshotInterval, conf.BatchApplyCh = time.Hour, true
	if tune != nil {
		tune(conf)
	}
	s, err := Open(n.path(), Options{OnFailure: func(err error) { t.Errorf("%s: %v", id, err) }})
	if err != nil {
		t.Fatal(err)
	}
	n.store = s
	snaps, err := raft.NewFileSnapshotStoreWithLogger(dir, 2, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	_, n.trans = raft.NewInmemTransport(raft.ServerAddress(id))
	var servers raft.Configuration
	for _, v := range voters {
		servers.Servers = append(servers.Servers, raft.Server{ID: raft.ServerID(v), Address: raft.ServerAddress(v)})
	}
	err = raft.BootstrapCluster(conf, s, s, snaps, n.trans, servers)
	if err != nil && !errors.Is(err, raft.ErrCantBootstrap) {
		t.Fatal(err)
	}
	if n.raft, err = raft.NewRaft(conf, n.fsm, s, s, snaps, n.trans); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *raftNode) stop(t *testing.T) {
	t.Helper()
	if err := errors.Join(n.raft.Shutdown().Error(), n.trans.Close(), n.store.Close()); err != nil {
		t.Fatal(err)
	}
	again, err := Open(n.path(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	closeStore(t, again)
}

// applyUpTo proposes the commands from..to and waits for the last.
func applyUpTo(t *testing.T, leader *raft.Raft, from, to uint64) {
	t.Helper()
	var futures []raft.ApplyFuture
	for v := from; v <= to; v++ {
		futures = append(futures, leader.Apply(binary.BigEndian.AppendUint64(nil, v), 30*time.Second))
	}
	for _, f := range futures {
		if err := f.Error(); err != nil {
			t.Fatal(err)
		}
	}
}

// A real node keeps everything over restarts: by its log alone, and by snapshot and log.
func TestRaftSingleNode(t *testing.T) {
	for name, c := range map[string]struct {
		snapshot bool
		trailing uint64
	}{
		"log":                {false, 10_240},
		"snapshot and log":   {true, 50},
		"snapshot, no trail": {true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir, total := t.TempDir(), uint64(0)
			for range 3 {
				n := startRaft(t, "n1", dir, []string{"n1"}, func(conf *raft.Config) { conf.TrailingLogs = c.trailing })
				n.lead(t)
				n.fsm.wantUpTo(t, total)
				applyUpTo(t, n.raft, total+1, total+1000)
				total += 1000
				if c.snapshot {
					if err := n.raft.Snapshot().Error(); err != nil {
						t.Fatal(err)
					}
					if st, err := n.store.Stats(); err != nil || st.Entries > c.trailing {
						t.Errorf("%+v, %v: the log was not cut", st, err)
					}
					applyUpTo(t, n.raft, total+1, total+7)
					total += 7
				}
				n.fsm.wantUpTo(t, total)
				n.stop(t)
			}
		})
	}
}

// lead waits until the node leads and has applied its log.
func (n *raftNode) lead(t *testing.T) {
	t.Helper()
	waittest.Until(t, "leader", func() bool { return n.raft.State() == raft.Leader })
	if err := n.raft.Barrier(0).Error(); err != nil {
		t.Fatal(err)
	}
}

// raft stages its commit index, and finds it again. (It is not started with RestoreCommittedLogs a second time:
// raft v1.8.0 then forgets its configuration.)
func TestRaftCommitIndex(t *testing.T) {
	n := startRaft(t, "n1", t.TempDir(), []string{"n1"}, func(c *raft.Config) { c.RestoreCommittedLogs = true })
	n.lead(t)
	atStart, err := n.store.Stats()
	if err != nil {
		t.Fatal(err)
	}
	for v := range uint64(20) {
		applyUpTo(t, n.raft, v+1, v+1)
	}
	before, err := n.store.Stats()
	if err != nil {
		t.Fatal(err)
	}
	n.stop(t)
	s := open(t, n.path(), Options{})
	// The last entry went to the disk with the commit index of the one before.
	if got, err := s.GetCommitIndex(); got < before.Last-2 || got >= before.Last || err != nil {
		t.Errorf("commit index %d, %v, last entry %d", got, err, before.Last)
	}
	if n := before.Syncs - atStart.Syncs; n < 20 || n > 30 {
		t.Errorf("%d fdatasyncs for 20 commands one after the other", n)
	}
}

// A follower that was disconnected for long is sent a snapshot and goes on after it: its log then
// has a hole, which is legitimate and must not keep it from starting again.
func TestRaftInstalledSnapshot(t *testing.T) {
	dir := t.TempDir()
	ids := []string{"n1", "n2", "n3"}
	nodes := map[string]*raftNode{}
	connect := func(a *raftNode) {
		for _, b := range nodes {
			if a != b {
				a.trans.Connect(b.trans.LocalAddr(), b.trans)
				b.trans.Connect(a.trans.LocalAddr(), a.trans)
			}
		}
	}
	run := func(id string) *raftNode {
		t.Helper()
		sub := filepath.Join(dir, id)
		if err := os.MkdirAll(sub, 0o700); err != nil {
			t.Fatal(err)
		}
		n := startRaft(t, id, sub, ids, func(c *raft.Config) {
			c.TrailingLogs = 10
			// Long enough that a busy machine deposes no leader in the middle of the test.
			c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = 2*time.Second, 2*time.Second, 2*time.Second
		})
		nodes[id] = n
		connect(n)
		return n
	}
	for _, id := range ids {
		run(id)
	}
	leader := func() (l *raftNode) {
		t.Helper()
		waittest.Until(t, "leader", func() bool {
			for _, n := range nodes {
				if n.raft.State() == raft.Leader && n.raft.VerifyLeader().Error() == nil {
					l = n
				}
			}
			return l != nil
		})
		return l
	}
	l := leader()
	applyUpTo(t, l.raft, 1, 40)
	var away *raftNode
	for _, n := range nodes {
		if n != l {
			away = n
		}
	}
	waittest.Until(t, "all applied", func() bool { return away.raft.AppliedIndex() == l.raft.AppliedIndex() })
	away.stop(t)
	delete(nodes, string(away.id))

	applyUpTo(t, leader().raft, 41, 400)
	if err := leader().raft.Snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	for round := range 2 { // the second start is on a log with a hole
		away = run(string(away.id))
		from := 401 + uint64(round)*10
		applyUpTo(t, leader().raft, from, from+9)
		waittest.Until(t, fmt.Sprintf("round %d: %s has caught up", round, away.id), func() bool {
			away.fsm.mu.Lock()
			defer away.fsm.mu.Unlock()
			return uint64(len(away.fsm.seen)) == from+9
		})
		away.fsm.wantUpTo(t, from+9)
		away.stop(t)
		delete(nodes, string(away.id))
		s, err := Open(away.path(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(s.entries.spans); n != 2 {
			t.Errorf("round %d: %d spans of entries, want two", round, n)
		}
		closeStore(t, s)
	}
	for _, n := range nodes {
		n.stop(t)
	}
}
