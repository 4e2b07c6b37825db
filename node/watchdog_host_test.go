package node

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/internal/random"
	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/raftfsm"
	"github.com/txmgr/txmgr/raftfsm/logstore"
	"github.com/txmgr/txmgr/txn/machine"
)

// stuckHandler is a log handler that blocks when a test asks for it.
type stuckHandler struct {
	stuck *atomic.Bool
	free  <-chan struct{}
}

func (h stuckHandler) Handle(context.Context, slog.Record) error {
	if h.stuck.Load() {
		<-h.free
	}
	return nil
}
func (h stuckHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h stuckHandler) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h stuckHandler) WithGroup(string) slog.Handler            { return h }

// TestWatchdogWaitsForNoDiskAndNoLog: the state is locked, the node's log output is not read, and
// the disk does not accept the stacks of its goroutines: a pipe without a reader stands in for it.
// The process ends all the same.
func TestWatchdogWaitsForNoDiskAndNoLog(t *testing.T) {
	t.Parallel()
	var stuck atomic.Bool
	free, failed, dir := make(chan struct{}), make(chan error, 1), t.TempDir()
	n := open(t, dir, func(c *Config) {
		c.Logger = slog.New(stuckHandler{&stuck, free})
		c.OnFailure = func(err error) { failed <- err }
	})
	pipe := filepath.Join(dir, "stall.txt")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	stuck.Store(true)
	entered, release := make(chan struct{}), make(chan struct{})
	go n.fsm.View(func(*machine.Machine) { close(entered); <-release })
	<-entered
	begun := beginSoon(t, n)
	select {
	case <-failed:
	case <-time.After(time.Minute):
		t.Error("a node whose state is locked goes on, since its log or its disk is stuck")
	}
	stuck.Store(false)
	close(free)
	go func() {
		if f, err := os.Open(pipe); err == nil {
			_, _ = io.Copy(io.Discard, f)
			_ = f.Close()
		}
	}()
	close(release)
	<-begun
}

// onlyVoter opens a node that could have others, and has none. Its failure is sent on the channel.
func onlyVoter(t *testing.T, options ...func(*Config)) (*Node, <-chan error) {
	t.Helper()
	failed := make(chan error, 1)
	conf := Config{
		DataDir: t.TempDir(), Logger: slog.New(slog.DiscardHandler), OnFailure: func(err error) { failed <- err },
		Cluster: &Cluster{Listen: freePorts(t, 1)[0], Name: "a", API: "http://127.0.0.1:1", Expect: 1},
	}
	for _, o := range options {
		o(&conf)
	}
	n, err := Open(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	leaderOf(t, n)
	return n, failed
}

// TestOnlyVoterThatStallsEnds: a node of a cluster without other nodes cannot transfer leadership.
// It ends after the time at which only a restart helps, as a single node does, and not at the first
// poll after it.
func TestOnlyVoterThatStallsEnds(t *testing.T) {
	t.Parallel()
	var effects sync.Mutex
	n, failed := onlyVoter(t, publishesUnder(&effects))
	effects.Lock()
	begun := beginSoon(t, n)
	waittest.Until(t, "an entry is being applied", func() bool { return n.fsm.Steps()%2 == 1 })
	w := newWatchdog(n)
	w.act("an entry is being applied", exitPolls)
	select {
	case err := <-failed:
		t.Errorf("one look ended the process: %v", err)
	default:
	}
	w.act("an entry is being applied", exitPolls+1)
	select {
	case <-failed:
	default:
		t.Error("the only voter makes no progress, and is not ended")
	}
	dumped(t, n)
	effects.Unlock()
	<-begun
}

// TestLongReplayIsNoStall: a start applies the whole log after the snapshot, for longer than the
// watchdog waits for one step. raft does not report its progress.
func TestLongReplayIsNoStall(t *testing.T) {
	t.Parallel()
	const entries = 16_000
	dir := t.TempDir()
	n, err := tryOpen(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	appendBegins(t, dir, entries)
	var said strings.Builder
	var replaying atomic.Bool
	replaying.Store(true)
	n, err = tryOpen(t, dir, func(c *Config) {
		c.Logger = slog.New(slog.NewTextHandler(&said, nil))
		c.monotonic = func() time.Time {
			if replaying.Load() {
				<-time.After(time.Millisecond) // a slow machine
			}
			return time.Now()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	replaying.Store(false)
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	if strings.Contains(said.String(), "no progress") {
		t.Errorf("a node that applies its log is taken for one that makes no progress:\n%s", said.String())
	}
}

// appendBegins puts entries into the log of a node that is down.
func appendBegins(t *testing.T, dir string, count int) {
	t.Helper()
	s, err := logstore.Open(filepath.Join(dir, "log.db"), logstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	last, err := s.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	var l raft.Log
	if err := s.GetLog(last, &l); err != nil {
		t.Fatal(err)
	}
	logs := make([]*raft.Log, count)
	for i := range logs {
		buf := raftfsm.AppendCommand(raftfsm.AppendHeader(nil), machine.Begin{ID: random.TransactionID(), Timeout: time.Hour, Survival: 36000, Expiry: 1 << 40})
		if err := raftfsm.FinishEntry(buf, 1, time.Now().UnixMilli(), 1); err != nil {
			t.Fatal(err)
		}
		last++
		logs[i] = entry(buf, last, l.Term)
	}
	if err := s.StoreLogs(logs); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func entry(buf []byte, index, term uint64) *raft.Log {
	l := raftfsm.WithTerm(buf, term)
	l.Index, l.Term, l.Type = index, term, raft.LogCommand
	return &l
}

// TestSnapshotBehindALockedStateEnds: a follower has read a snapshot, which is to replace a state that a reader does not let
// go of. Reading may take long, and waiting for the state may not.
func TestSnapshotBehindALockedStateEnds(t *testing.T) {
	t.Parallel()
	n, failed := stalling(t)
	if err := n.Snapshot(); err != nil {
		t.Fatal(err)
	}
	snaps, err := n.env.Snapshots.List()
	if err != nil || len(snaps) == 0 {
		t.Fatalf("no snapshot: %v", err)
	}
	_, rc, err := n.env.Snapshots.Open(snaps[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	entered, hold, restored := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go n.fsm.View(func(*machine.Machine) { close(entered); <-hold })
	<-entered
	go func() { restored <- n.fsm.Restore(rc) }() // as raft's goroutine does
	waittest.Until(t, "the snapshot waits for the state", func() bool { return !n.fsm.Readable() })
	w := newWatchdog(n)
	for range stallPolls + 1 {
		w.act(w.check())
	}
	select {
	case err := <-failed:
		if !strings.Contains(err.Error(), "the state is locked") {
			t.Errorf("the node failed with %v", err)
		}
		dumped(t, n)
	default:
		t.Error("the state is locked, a snapshot waits for it, and the node goes on")
	}
	close(hold)
	if err := <-restored; err != nil {
		t.Errorf("the snapshot: %v", err)
	}
}
