package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// TestProgressCountsLooksWithoutAStep: only consecutive polls count at which a step is waited for
// and none was made.
func TestProgressCountsLooksWithoutAStep(t *testing.T) {
	var mark uint64
	var waited bool
	p := &progressCheck{check: func() (uint64, bool) { return mark, waited }}
	for i, step := range []struct {
		mark   uint64
		waited bool
		want   int
	}{
		{7, false, 0}, {7, false, 0}, {7, true, 1}, {7, true, 2}, {8, true, 0}, {8, true, 1}, {8, false, 0}, {8, true, 1},
	} {
		mark, waited = step.mark, step.waited
		if p.observe(); p.polls != step.want {
			t.Errorf("look %d: %d looks without a step, want %d", i, p.polls, step.want)
		}
	}
}

// stalling opens a node whose failure is sent on the channel.
func stalling(t *testing.T, options ...func(*Config)) (*Node, <-chan error) {
	failed := make(chan error, 1)
	options = append(options, func(c *Config) { c.OnFailure = func(err error) { failed <- err } })
	return open(t, t.TempDir(), options...), failed
}

// publishesUnder makes a node wait for mu before it publishes the changes of an entry.
func publishesUnder(mu *sync.Mutex) func(*Config) {
	return func(c *Config) {
		c.hooks.publishing = func() {
			mu.Lock()
			defer mu.Unlock()
		}
	}
}

// dumped waits until the stacks of the goroutines are written, which nothing else waits for: the directory is removed next.
func dumped(t *testing.T, n *Node) {
	t.Helper()
	waittest.Until(t, "the stacks of the goroutines are written down", func() bool {
		stacks, err := os.ReadFile(filepath.Join(n.conf.DataDir, "stall.txt"))
		return err == nil && strings.Contains(string(stacks), "goroutine")
	})
}

// beginSoon begins a transaction on a goroutine of its own.
func beginSoon(t *testing.T, n *Node) <-chan error {
	answered := make(chan error, 1)
	go func() {
		_, err := n.Begin(context.WithoutCancel(t.Context()), txn.Options{Timeout: time.Hour})
		answered <- err
	}()
	return answered
}

// TestNodeWithLockedStateEnds: a reader of the state does not end, so no entry can be applied any more and nothing can be
// read: the node fails, so that its process ends and another node leads.
func TestNodeWithLockedStateEnds(t *testing.T) {
	t.Parallel()
	n, failed := stalling(t)
	entered, hold := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(hold) })
	defer release() // also where the test fails: the node closes next
	go n.fsm.View(func(*machine.Machine) { close(entered); <-hold })
	<-entered
	begun := beginSoon(t, n)
	select {
	case err := <-failed:
		if !strings.Contains(err.Error(), "no progress for 5s") || !strings.Contains(err.Error(), "the state is locked") {
			t.Errorf("the node failed with %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the node stands still and goes on")
	}
	if err := n.Ready(); err == nil {
		t.Error("a node that stands still is ready")
	}
	dumped(t, n)
	release()
	if err := <-begun; err != nil && !errors.Is(err, txn.ErrInDoubt) {
		t.Errorf("the call that waited was told %v", err)
	}
}

// TestStalledNodeIsNotReady: entries are not applied because their effects are not consumed. The
// node reports it, refuses calls at once, and writes the stacks of its goroutines to a file. It
// serves again when it makes progress.
func TestStalledNodeIsNotReady(t *testing.T) {
	t.Parallel()
	var effects sync.Mutex
	n, failed := stalling(t, publishesUnder(&effects))
	effects.Lock()
	release := sync.OnceFunc(effects.Unlock)
	defer release()
	begun := beginSoon(t, n)
	waittest.Until(t, "the node is not ready", func() bool { return n.Ready() != nil })
	if err := n.logFailure(); err != nil {
		t.Fatalf("the node was ready until it failed: %v", err)
	}
	if err := n.Ready(); !errors.Is(err, txn.ErrUnavailable) || !strings.Contains(err.Error(), "no progress") {
		t.Errorf("the node is not ready because of %v", err)
	}
	if _, err := n.Begin(t.Context(), txn.Options{}); !errors.Is(err, txn.ErrUnavailable) {
		t.Errorf("a call of a node that stands still was told %v", err)
	}
	waittest.Until(t, "the stacks of the goroutines are written down", func() bool {
		stacks, err := os.ReadFile(filepath.Join(n.conf.DataDir, "stall.txt"))
		return err == nil && strings.Contains(string(stacks), "onApply")
	})
	release()
	if err := <-begun; err != nil {
		t.Errorf("the call that waited was told %v", err)
	}
	waittest.Until(t, "the node is ready again", func() bool { return n.Ready() == nil })
	if _, err := n.Begin(t.Context(), txn.Options{}); err != nil {
		t.Errorf("a call after the stall was told %v", err)
	}
	select {
	case err := <-failed:
		t.Errorf("the node failed: %v", err)
	default:
	}
}
