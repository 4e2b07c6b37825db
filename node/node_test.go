package node

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/txmgr/txmgr/raftfsm/logstore"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// open starts a node in dir and stops it when the test ends.
func open(t testing.TB, dir string, change ...func(*Config)) *Node {
	t.Helper()
	n, err := tryOpen(t, dir, change...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		n.fsm.View(func(m *machine.Machine) {
			if err := m.CheckInvariants(); err != nil {
				t.Errorf("invariants: %v", err)
			}
		})
		if err := n.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return n
}

func tryOpen(t testing.TB, dir string, change ...func(*Config)) (*Node, error) {
	conf := Config{
		DataDir: dir, Interval: 10 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		OnFailure: func(err error) { t.Errorf("the log failed: %v", err) },
	}
	for _, c := range change {
		c(&conf)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return Open(ctx, conf)
}

func TestCommitAndRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "on", "demand")
	n, err := tryOpen(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	b, err := n.Begin(ctx, txn.Options{Name: "transfer", Labels: map[string]string{"a": "1"}})
	if err != nil {
		t.Fatal(err)
	}
	if o, err := n.Commit(ctx, b.ID, txn.CommitRequest{}); err != nil || o.State != txn.Committed {
		t.Fatalf("commit: %+v, %v", o, err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Begin(ctx, txn.Options{}); !errors.Is(err, txn.ErrUnavailable) {
		t.Errorf("begin after close: %v", err)
	}
	n = open(t, dir)
	info, err := n.Get(ctx, b.ID)
	if err != nil || info.State != txn.Committed || info.Name != "transfer" || info.Labels["a"] != "1" {
		t.Errorf("after the restart: %+v, %v", info, err)
	}
	if _, err := n.Rollback(ctx, b.ID, "too late"); !errors.Is(err, txn.ErrConflict) {
		t.Errorf("rollback of a committed transaction: %v", err)
	}
}

func TestTimeoutIsNeverEarlyAndSoon(t *testing.T) {
	n := open(t, t.TempDir())
	ctx := context.Background()
	const timeout = 55 * time.Millisecond
	start := time.Now()
	b, err := n.Begin(ctx, txn.Options{Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	info, err := n.Wait(ctx, b.ID, txn.UntilFinished)
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < timeout {
		t.Errorf("timed out after %v of %v", took, timeout)
	}
	if info.State != txn.RolledBack || info.Cause != txn.CauseTimeout {
		t.Errorf("ended %v by %v", info.State, info.Cause)
	}
	_, err = n.Commit(ctx, b.ID, txn.CommitRequest{})
	if !errors.Is(err, txn.ErrRolledBack) || !errors.Is(err, txn.ErrTimedOut) {
		t.Errorf("commit after the deadline: %v", err)
	}
}

func TestManyCallersShareEntries(t *testing.T) {
	n := open(t, t.TempDir())
	ctx := context.Background()
	const callers, each = 64, 50
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range each {
				b, err := n.Begin(ctx, txn.Options{})
				if err == nil {
					_, err = n.Commit(ctx, b.ID, txn.CommitRequest{})
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	s, err := n.Admin().Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if s.Committed != callers*each || s.Undecided != 0 {
		t.Errorf("%d committed, %d open", s.Committed, s.Undecided)
	}
	if s.Entries*4 > s.Commands {
		t.Errorf("%d commands took %d entries", s.Commands, s.Entries)
	}
}

func TestLockedDataDir(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	if _, err := tryOpen(t, dir); !errors.Is(err, logstore.ErrInUse) {
		t.Errorf("second node on the same directory: %v", err)
	}
}

func TestFixedConfiguration(t *testing.T) {
	dir := t.TempDir()
	n, err := tryOpen(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = tryOpen(t, dir, func(c *Config) { c.Interval = time.Second })
	if !errors.Is(err, txn.ErrConflict) {
		t.Errorf("another interval: %v", err)
	}
	open(t, dir, func(c *Config) { c.Interval = 0 })
}
