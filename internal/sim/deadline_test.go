package sim

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// TestDeadlinesWhileLeadersChange changes the leader more than twice within the timeout of every
// transaction. No timeout starts anew, none is shortened, and none ends much too late.
func TestDeadlinesWhileLeadersChange(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*testing.T, *testCluster)
		late   time.Duration // at most, beyond the interval
	}{
		// A change costs the new leader's count the time of an entry, some milliseconds; the last
		// one, also the time until it serves.
		{"handed over", transferLeader, 500 * time.Millisecond},
		// A node that restarts continues the count from what it receives then; and at the end there
		// may be no leader: for two elections of one to three times half a second.
		{"crashed", crashLeader, 4 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := newTestCluster(t, Plan{Seed: 1, Nodes: 3, FaultTime: time.Second, Apps: 1})
				defer x.end()
				deadlines(t, x, c.change, c.late)
			})
		})
	}
}

func deadlines(t *testing.T, x *testCluster, change func(*testing.T, *testCluster), late time.Duration) {
	const (
		timeout = 5 * time.Second
		every   = timeout/2 - 200*time.Millisecond
		many    = 60
	)
	var watched sync.WaitGroup
	var over sync.WaitGroup
	stop := make(chan struct{})
	changes := 0
	var latest atomic.Int64
	over.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(every):
				change(t, x)
				changes++
			}
		}
	})
	for range many {
		id := txn.NewID(time.Now(), x.rng.entropy())
		from, to := x.begin(t, id, timeout)
		watched.Go(func() {
			at, cause := x.ended(t, id)
			latest.Store(max(latest.Load(), int64(at-to-timeout)))
			switch {
			case cause != txn.CauseTimeout:
				t.Errorf("%v ended by %v", id, cause)
			case at < from+timeout:
				t.Errorf("%v ended %v early", id, from+timeout-at)
			case at > to+timeout+x.w.interval()+late:
				t.Errorf("%v ended %v late", id, at-to-timeout)
			}
		})
		sleep(350 * time.Millisecond)
	}
	watched.Wait()
	close(stop)
	over.Wait()
	t.Logf("%d changes; the latest ended %v late", changes, time.Duration(latest.Load()))
	if changes < 8 {
		t.Errorf("%d changes: nothing was tried", changes)
	}
}

// begin begins a transaction at the leader, and returns the times between which it was begun.
func (x *testCluster) begin(t *testing.T, id txn.ID, timeout time.Duration) (from, to time.Duration) {
	t.Helper()
	first, doubt := time.Duration(-1), false
	for began := x.w.now(); x.w.now() < began+30*time.Second; sleep(10 * time.Millisecond) {
		l := x.w.leader()
		if l == nil {
			continue
		}
		if first < 0 {
			first = x.w.now()
		}
		_, err := l.node.Begin(t.Context(), txn.Options{ID: id, Timeout: timeout})
		switch {
		case err == nil:
			return first, x.w.now()
		case errors.Is(err, txn.ErrInDoubt):
			doubt = true
		case errors.Is(err, txn.ErrUnavailable):
			if !doubt {
				first = -1 // it was not carried out
			}
		default:
			t.Fatal(err)
		}
	}
	t.Fatal("nobody takes a transaction for 30 s")
	return 0, 0
}

// ended waits until a transaction has ended.
func (x *testCluster) ended(t *testing.T, id txn.ID) (time.Duration, txn.Cause) {
	for began := x.w.now(); x.w.now() < began+time.Minute; sleep(5 * time.Millisecond) {
		l := x.w.leader()
		if l == nil {
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		i, err := l.node.Get(ctx, id)
		cancel()
		if err == nil && i.State.Decided() {
			return x.w.now(), i.Cause
		}
	}
	t.Errorf("%v does not end", id)
	return 0, 0
}

func transferLeader(t *testing.T, x *testCluster) {
	if l := x.w.leader(); l != nil {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if err := l.node.Admin().TransferLeader(ctx, "", "", ""); err != nil {
			t.Errorf("handing over: %v", err)
		}
	}
}

func crashLeader(_ *testing.T, x *testCluster) {
	l := x.w.leader()
	if l == nil {
		return
	}
	l.host.crash()
	sleep(700 * time.Millisecond)
	l.host.start()
}
