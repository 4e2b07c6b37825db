package node

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// In these tests time is the bubble's: it passes only when every goroutine
// waits for it.

func slow(c *Config) { c.Interval = 100 * time.Millisecond }

// pass lets time go by.
func pass(d time.Duration) { <-time.After(d) }

func begin(t *testing.T, n *Node, timeout time.Duration) txn.Begun {
	t.Helper()
	b, err := n.Begin(context.Background(), txn.Options{Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func finished(t *testing.T, n *Node, id txn.ID) txn.Info {
	t.Helper()
	info, err := n.Wait(context.Background(), id, txn.Finished)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func TestTimeoutWithinOneInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := open(t, t.TempDir(), slow)
		for _, timeout := range []time.Duration{100 * time.Millisecond, 101 * time.Millisecond, 150 * time.Millisecond, 30 * time.Second, 10 * time.Minute} {
			pass(37 * time.Millisecond) // the phase of the tick varies
			start := time.Now()
			b := begin(t, n, timeout)
			if info := finished(t, n, b.ID); info.Cause != txn.CauseTimeout {
				t.Errorf("%v: %v by %v", timeout, info.State, info.Cause)
			}
			if took := time.Since(start); took < timeout || took >= timeout+100*time.Millisecond {
				t.Errorf("a timeout of %v took %v", timeout, took)
			}
		}
	})
}

func TestShortOneAmongLongOnesIsOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := open(t, t.TempDir(), slow)
		for range 1000 {
			begin(t, n, time.Hour)
		}
		start := time.Now()
		b := begin(t, n, time.Second)
		finished(t, n, b.ID)
		if took := time.Since(start); took < time.Second || took >= 1100*time.Millisecond {
			t.Errorf("took %v", took)
		}
	})
}

// TestIdleWritesCheckpointsOnly: open transactions and nothing due cost one
// entry a checkpoint interval; nothing open costs nothing.
func TestIdleWritesCheckpointsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := open(t, t.TempDir(), slow)
		entries := func() uint64 {
			s, err := n.Status(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			return s.Entries
		}
		before := entries()
		pass(10 * time.Minute)
		if got := entries() - before; got != 0 {
			t.Errorf("nothing open: %d entries in ten minutes", got)
		}
		for i := range 1000 {
			begin(t, n, 2*time.Hour+time.Duration(i)*time.Second)
		}
		before = entries()
		pass(10 * time.Minute)
		if got := entries() - before; got < 59 || got > 61 {
			t.Errorf("1,000 open, nothing due: %d entries in ten minutes, want one every 10s", got)
		}
	})
}

// TestRestartLosesAtMostACheckpoint: the time of the stop and at most one
// checkpoint interval are not counted. Late, never early.
func TestRestartLosesAtMostACheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		n, err := tryOpen(t, dir, slow)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		b := begin(t, n, time.Minute)
		pass(45 * time.Second)
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute) // down
		n = open(t, dir, slow)
		info, err := n.Get(context.Background(), b.ID)
		if err != nil || info.State != txn.Active {
			t.Fatalf("after the restart: %v, %v", info.State, err)
		}
		finished(t, n, b.ID)
		took := time.Since(start) - time.Minute
		if took < time.Minute || took > time.Minute+11*time.Second {
			t.Errorf("a timeout of 1m took %v, the downtime not counted", took)
		}
	})
}

func TestExtend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := open(t, t.TempDir(), slow)
		start := time.Now()
		b := begin(t, n, 2*time.Second)
		pass(time.Second)
		if _, err := n.Extend(context.Background(), b.ID, 5*time.Second); err != nil {
			t.Fatal(err)
		}
		if _, err := n.Extend(context.Background(), b.ID, time.Second); err != nil {
			t.Fatal("an extension that would shorten changes nothing and is no error:", err)
		}
		finished(t, n, b.ID)
		if took := time.Since(start); took < 6*time.Second || took >= 6100*time.Millisecond {
			t.Errorf("took %v", took)
		}
		if _, err := n.Extend(context.Background(), b.ID, time.Second); !errors.Is(err, txn.ErrTimedOut) {
			t.Errorf("extending a timed-out transaction: %v", err)
		}
	})
}

func TestTimeoutsOutsideTheLimits(t *testing.T) {
	n := open(t, t.TempDir(), slow)
	for _, timeout := range []time.Duration{-1, 1, 99 * time.Millisecond, 25 * time.Hour, 1<<63 - 1} {
		_, err := n.Begin(context.Background(), txn.Options{Timeout: timeout})
		if !errors.Is(err, txn.ErrInvalid) {
			t.Errorf("timeout %v: %v", timeout, err)
		}
	}
	if s, _ := n.Status(context.Background()); s.Open != 0 {
		t.Errorf("%d transactions are open", s.Open)
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := open(t, t.TempDir(), slow)
		b := begin(t, n, time.Hour)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := n.Wait(ctx, b.ID, txn.Finished); !errors.Is(err, txn.ErrWaitTimeout) {
			t.Errorf("wait: %v", err)
		}
	})
}
