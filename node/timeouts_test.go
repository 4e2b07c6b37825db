package node

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/ledger"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// In these tests time is the bubble's: it passes only when every goroutine
// waits for it.

func slow(c *Config) { c.Interval = 100 * time.Millisecond }

// pass lets time go by.
func pass(d time.Duration) { <-time.After(d) }

func begin(t *testing.T, n *Node, timeout time.Duration) txn.BeginResult {
	t.Helper()
	b, err := n.Begin(context.Background(), txn.Options{Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func finished(t *testing.T, n *Node, id txn.ID) txn.Info {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	info, err := n.Wait(ctx, id, txn.UntilFinished)
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

// TestAThousandLongTimeoutsDoNotDelayAShortOne: it is on time among them.
func TestAThousandLongTimeoutsDoNotDelayAShortOne(t *testing.T) {
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

// TestCommitOneTickAfterTheDeadlineBeforeTheSweep: more transactions than one entry expires are due
// at the same tick, and all are asked to commit at that moment, so that commits come before their
// transactions are expired. None may succeed; those that come a tick earlier may.
func TestCommitOneTickAfterTheDeadlineBeforeTheSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := open(t, t.TempDir(), slow)
		const late = 3*machine.ExpireBatch + 1000
		ids := make([]txn.ID, late+100)
		var wg sync.WaitGroup
		all := func(ids []txn.ID, do func(i int)) {
			for i := range ids {
				wg.Go(func() { do(i) })
			}
			wg.Wait()
		}
		all(ids, func(i int) { ids[i] = begin(t, n, 10*time.Second).ID })
		pass(9900 * time.Millisecond)
		commit := func(id txn.ID) error {
			_, err := n.Commit(context.Background(), id, txn.CommitRequest{})
			return err
		}
		all(ids[late:], func(i int) {
			if err := commit(ids[late+i]); err != nil {
				t.Error("a tick before the deadline:", err)
			}
		})
		pass(100 * time.Millisecond)
		all(ids[:late], func(i int) {
			if err := commit(ids[i]); !errors.Is(err, txn.ErrTimedOut) || !errors.Is(err, txn.ErrRolledBack) {
				t.Error("at the deadline:", err)
			}
		})
		s, err := n.Admin().Status(context.Background())
		if err != nil || s.Committed != 100 || s.TimedOut != late || s.Undecided != 0 {
			t.Errorf("%d committed, %d timed out, %d open, %v", s.Committed, s.TimedOut, s.Undecided, err)
		}
	})
}

// TestIdleWritesCheckpointsOnly: open transactions and nothing due cost one
// entry a checkpoint interval; nothing open costs nothing.
func TestIdleWritesCheckpointsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := open(t, t.TempDir(), slow)
		entries := func() uint64 {
			s, err := n.Admin().Status(context.Background())
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

// TestRetentionEndsWhileIdle: outcomes are forgotten when their retention has passed, at most
// one of its steps and a checkpoint interval later, without any call; then nothing is
// written any more.
func TestRetentionEndsWhileIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const retention, late = time.Hour, 15*time.Second + 10*time.Second
		n := open(t, t.TempDir(), slow, func(c *Config) { c.Retention = retention })
		status := func() admin.Status {
			s, err := n.Admin().Status(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		for range 1000 {
			if _, err := n.Rollback(context.Background(), begin(t, n, time.Minute).ID, "over"); err != nil {
				t.Fatal(err)
			}
		}
		pass(retention - time.Second)
		if got := status().Finished; got != 1000 {
			t.Errorf("%d outcomes are kept before the retention is over, want 1000", got)
		}
		pass(time.Second + late)
		if got := status().Finished; got != 0 {
			t.Errorf("%d outcomes are kept %v after the retention was over", got, late)
		}
		before := status().Entries
		pass(10 * time.Minute)
		if got := status().Entries - before; got != 0 {
			t.Errorf("nothing open, nothing kept: %d entries in ten minutes", got)
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
	if s, _ := n.Admin().Status(context.Background()); s.Undecided != 0 {
		t.Errorf("%d transactions are open", s.Undecided)
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := open(t, t.TempDir(), slow)
		b := begin(t, n, time.Hour)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := n.Wait(ctx, b.ID, txn.UntilFinished); !errors.Is(err, txn.ErrWaitTimeout) {
			t.Errorf("wait: %v", err)
		}
	})
}

// TestClockJumpOfAnHour: the leader's wall clock jumps an hour ahead, and back, and the deadlines
// do not move. The process observes the jump in time.Now without its monotonic reading, so that is
// injected; that deadlines are counted with the monotonic reading is checked in the source.
func TestClockJumpOfAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var jump atomic.Int64
		n := open(t, t.TempDir(), slow, func(c *Config) {
			c.wall = func() time.Time { return time.Now().Add(time.Duration(jump.Load())).Round(0) }
		})
		for _, to := range []time.Duration{time.Hour, -time.Hour} {
			start := time.Now()
			soon, late := begin(t, n, 10*time.Second), begin(t, n, time.Minute)
			pass(5 * time.Second)
			jump.Store(int64(to))
			between := begin(t, n, 10*time.Second)
			for id, timeout := range map[txn.ID]time.Duration{soon.ID: 10 * time.Second, between.ID: 15 * time.Second, late.ID: time.Minute} {
				if info, err := n.Get(context.Background(), id); err != nil || info.State != txn.Active {
					t.Fatalf("%v: after a jump of %v: %v, %v", timeout, to, info.State, err) // a clock that goes by the wall would stand still at the next jump
				}
			}
			for _, b := range []txn.BeginResult{soon, between, late} {
				finished(t, n, b.ID)
				timeout := b.Timeout
				if b.ID == between.ID {
					timeout += 5 * time.Second
				}
				if took := time.Since(start); took < timeout || took >= timeout+100*time.Millisecond {
					t.Errorf("a jump of %v: a timeout of %v took %v", to, timeout, took)
				}
			}
			info, err := n.Get(context.Background(), between.ID)
			if off := time.Until(info.Began.Add(-to)); err != nil || off.Abs() > 2*time.Minute {
				t.Errorf("the jump was not seen: began %v, %v", info.Began, err)
			}
		}
	})
}

// TestRestartKeepsTheClusterTag: a coordinator that starts again recognizes its branches by
// their names, and finishes them; one in another directory has another cluster id, and leaves
// them alone.
func TestRestartKeepsTheClusterTag(t *testing.T) {
	dir, path := t.TempDir(), filepath.Join(t.TempDir(), "bank")
	conf := func(c *Config) {
		c.Drivers = map[string]participant.Driver{ledger.Kind: ledger.Driver}
		c.Recovery.SweepEvery = 20 * time.Millisecond
	}
	bank := ledger.New("bank", path)
	ctx := t.Context()
	if _, err := bank.Local(ctx, "set a 100"); err != nil {
		t.Fatal(err)
	}
	register := func(n *Node) {
		t.Helper()
		if err := n.Admin().AddParticipant(ctx, admin.Participant{Name: "bank", Kind: ledger.Kind, Settings: map[string]string{"path": path}}, "", ""); err != nil {
			t.Fatal(err)
		}
	}
	n, err := tryOpen(t, dir, conf)
	if err != nil {
		t.Fatal(err)
	}
	register(n)
	tag, name := n.clusterID(), n.env.ID
	id := begin(t, n, time.Hour).ID
	tx, err := txn.Attach(ctx, n, id)
	if err == nil {
		err = errors.Join(bank.Add(ctx, tx, "a", -10), tx.Prepare(ctx))
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}

	outsider := open(t, t.TempDir(), conf)
	register(outsider)
	if _, err := outsider.Admin().Scan(ctx, "bank", true); err != nil {
		t.Error(err)
	}
	if outsider.clusterID() == tag {
		t.Error("another cluster has the same tag")
	}
	n = open(t, dir, conf)
	if n.clusterID() != tag || n.env.ID != name {
		t.Errorf("cluster %s, node %s; were %s and %s", n.clusterID(), n.env.ID, tag, name)
	}
	fs, err := n.Admin().Scan(ctx, "bank", false)
	if err != nil || len(fs) != 1 || fs[0].ID != id || fs[0].Class != "leave" {
		t.Errorf("%+v, %v", fs, err)
	}
	if o, err := n.Commit(ctx, id, txn.CommitRequest{}); err != nil || !o.State.Commits() {
		t.Errorf("%+v, %v", o, err)
	}
	if info := finished(t, n, id); info.State != txn.Committed || info.Heuristic != 0 {
		t.Errorf("%+v", info)
	}
	if b, err := bank.Balances(ctx); err != nil || b["a"] != 90 {
		t.Errorf("%v, %v", b, err)
	}
}
