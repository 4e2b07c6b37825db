package crash

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/txmgr/txmgr/internal/rig"
	"github.com/txmgr/txmgr/txn"
)

// failpoints are the steps at which the coordinator is killed. decided tells whether the log
// contains the decision to commit by then, for sure (yes, no) or perhaps (maybe).
var failpoints = []struct{ failpoint, decided string }{
	{"begin received", "no"},
	{"begin applied", "no"},
	{"enlist received", "no"},
	{"enlist applied", "no"},
	{"enlist applied:2", "no"},
	{"commit received", "no"},
	{"decision proposed", "maybe"},
	{"commit applied", "yes"},
	{"finding received", "yes"},
	{"finding applied", "yes"},
}

// TestClientLives: the client continues to call while the coordinator is killed and restarted. Its
// transfer succeeds at every step, without an error.
func TestClientLives(t *testing.T) {
	for _, p := range failpoints {
		t.Run(p.failpoint, func(t *testing.T) {
			c := newCoordinator(t)
			c.start("")
			b := newBank(t, c)
			c.kill()
			c.start(p.failpoint)
			id := rig.NewID()
			result := make(chan error, 1)
			go func() { result <- b.transfer(t.Context(), id, 5*time.Minute, nil) }()
			c.awaitFailpointExit(p.failpoint)
			c.start("")
			if err := <-result; err != nil {
				t.Errorf("transfer: %v", err)
			}
			if got := b.awaitFinished(id, true); got != txn.Committed {
				t.Errorf("acknowledged as committed, ended %v", got)
			}
		})
	}
}

// TestClientDies: the client has ended when the coordinator restarts. What was decided is
// completed; what was not is rolled back at its deadline.
func TestClientDies(t *testing.T) {
	for _, p := range failpoints {
		t.Run(p.failpoint, func(t *testing.T) {
			c := newCoordinator(t)
			c.start("")
			b := newBank(t, c)
			c.kill()
			c.start(p.failpoint)
			id := rig.NewID()
			ctx, cancel := context.WithCancel(t.Context())
			result := make(chan error, 1)
			go func() { result <- b.transfer(ctx, id, 2*time.Second, nil) }()
			c.awaitFailpointExit(p.failpoint)
			cancel()
			err := <-result
			for _, conn := range b.work {
				_ = conn.Close(context.Background())
			}
			c.start("")
			got := b.awaitFinished(id, p.failpoint != "begin received")
			switch {
			case err == nil && got != txn.Committed:
				t.Errorf("acknowledged as committed, ended %v", got)
			case p.decided == "yes" && got != txn.Committed, p.decided == "no" && got != txn.RolledBack:
				t.Errorf("killed at a step at which commit is decided: %s; ended %v", p.decided, got)
			}
		})
	}
}

// TestKilledBetweenPrepareAndCommit needs no failpoint: the coordinator does nothing at that time.
func TestKilledBetweenPrepareAndCommit(t *testing.T) {
	c := newCoordinator(t)
	c.start("")
	b := newBank(t, c)
	id := rig.NewID()
	err := b.transfer(t.Context(), id, 5*time.Minute, func() {
		c.kill()
		c.start("")
	})
	if err != nil {
		t.Errorf("transfer: %v", err)
	}
	if got := b.awaitFinished(id, true); got != txn.Committed {
		t.Errorf("ended %v", got)
	}
}

// TestKilledWhenPhaseTwoIsHalfDone: one participant has committed, the other one hangs, and the
// coordinator is killed before it has recorded that.
func TestKilledWhenPhaseTwoIsHalfDone(t *testing.T) {
	for _, failpoint := range []string{"finding received", "finding applied"} {
		t.Run(failpoint, func(t *testing.T) {
			c := newCoordinator(t)
			c.start("")
			b := newBank(t, c)
			c.kill()
			c.start(failpoint)
			id := rig.NewID()
			var thaw func()
			ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
			defer cancel()
			result := make(chan error, 1)
			go func() { result <- b.transfer(ctx, id, 5*time.Minute, func() { thaw = suspendServer(t, right) }) }()
			c.awaitFailpointExit(failpoint)
			thaw()
			c.start("")
			if err := <-result; err != nil && !errors.Is(err, txn.ErrInDoubt) {
				t.Errorf("transfer: %v", err)
			}
			if got := b.awaitFinished(id, true); got != txn.Committed {
				t.Errorf("ended %v", got)
			}
		})
	}
}

// TestParticipantKilledInPhaseTwo: a database is killed when the decision is made and restarts
// later.
func TestParticipantKilledInPhaseTwo(t *testing.T) {
	c := newCoordinator(t)
	c.start("")
	b := newBank(t, c)
	id := rig.NewID()
	err := b.transfer(t.Context(), id, 5*time.Minute, func() {
		if err := right.Kill(t.Context()); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Errorf("transfer: %v", err)
	}
	info, err := b.m.Get(t.Context(), id)
	if err != nil || info.State != txn.Committing {
		t.Errorf("with a participant down: %v, %v", info.State, err)
	}
	c.kill() // and the coordinator with it
	c.start("")
	if err := right.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := b.awaitFinished(id, true); got != txn.Committed {
		t.Errorf("ended %v", got)
	}
}

// TestAbandoned: a client that stops after its prepares leaves nothing prepared after the timeout
// and two intervals.
func TestAbandoned(t *testing.T) {
	// A long interval, so that a busy machine is not mistaken for a late one.
	const interval, timeout = 3 * time.Second, 3 * time.Second
	c := newCoordinator(t, "--interval", interval.String())
	c.start("")
	b := newBank(t, c)
	id := rig.NewID()
	start := time.Now() // before the begin, which makes the bound stricter
	ctx, cancel := context.WithCancel(t.Context())
	if err := b.transfer(ctx, id, timeout, cancel); err == nil {
		t.Fatal("the transfer went on")
	}
	if got := b.awaitFinished(id, true); got != txn.RolledBack {
		t.Errorf("ended %v", got)
	}
	took := time.Since(start)
	t.Logf("timeout %v, interval %v: nothing was prepared any more after %v", timeout, interval, took.Round(time.Millisecond))
	if took > timeout+2*interval {
		t.Errorf("prepared branches were there for %v", took)
	}
}
