package node

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/txn"
)

// TestNoWakeUpIsLost: a caller that begins to wait at the moment of the decision is woken, like
// those before and after.
func TestNoWakeUpIsLost(t *testing.T) {
	n := open(t, t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 200 {
		b, err := n.Begin(ctx, txn.Options{Timeout: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if info, err := n.Wait(ctx, b.ID, txn.UntilDecided); err != nil || info.State != txn.Committed {
					t.Errorf("%v, %v", info.State, err)
				}
			})
		}
		if _, err := n.Commit(ctx, b.ID, txn.CommitRequest{}); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
	}
	if left := n.notifier.Waiting(); left != 0 {
		t.Errorf("%d requests are left", left)
	}
}

// TestWaitForWhatIsForgottenMeanwhile: the outcome was forgotten before the follower at which a
// caller waits could learn it.
func TestWaitForWhatIsForgottenMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := openReplicas(t, 3, func(c *Config) {
			c.Retention = time.Second
			c.SimEnv.TuneRaft = func(r *raft.Config) { r.TrailingLogs, r.SnapshotThreshold, r.SnapshotInterval = 2, 1<<20, time.Hour }
		})
		defer c.close()
		l := c.leader()
		away := (l + 1) % 3
		n, f := c.nodes[l], c.nodes[away]
		b := begin(t, n, time.Hour)
		pass(time.Second)
		waited := make(chan error, 1)
		go func() {
			_, err := f.Wait(txn.AllowStale(t.Context()), b.ID, txn.UntilFinished)
			waited <- err
		}()
		synctest.Wait()
		c.link(away, false)
		if _, err := n.Rollback(t.Context(), b.ID, "test"); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		for range 20 {
			begin(t, n, time.Hour)
		}
		if err := n.Snapshot(); err != nil {
			t.Fatal(err)
		}
		c.link(away, true)
		if err := <-waited; !errors.Is(err, txn.ErrNotFound) {
			t.Errorf("the wait: %v", err)
		}
	})
}

// TestAWaitThatEndsShowsWhatItHasSeen: also what has changed while it was parked.
func TestAWaitThatEndsShowsWhatItHasSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := open(t, t.TempDir(), slow, with(participantMap{"shop": hangs()}))
		b := beginAt(t, n, time.Minute, "shop")
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		start := time.Now()
		time.AfterFunc(time.Second, func() { _, _ = n.Commit(ctx, b.ID, txn.CommitRequest{}) })
		info, err := n.Wait(ctx, b.ID, txn.UntilFinished)
		wantErr(t, "wait", err, txn.ErrWaitTimeout)
		if e := (*txn.Error)(nil); info.State != txn.Preparing || !errors.As(err, &e) || e.State != txn.Preparing {
			t.Errorf("%v, %v", info.State, err)
		}
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}
