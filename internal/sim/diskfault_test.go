package sim

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// TestLeaderDiskFails lets the leader's disk fail. From then on it acknowledges nothing, and stops;
// the others continue, and it restarts when its disk works again.
func TestLeaderDiskFails(t *testing.T) {
	for _, c := range []struct {
		name string
		how  int32
	}{{"full", diskFull}, {"write error", diskFailing}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { leaderDiskFails(t, c.how) })
		})
	}
}

func leaderDiskFails(t *testing.T, how int32) {
	x := newTestCluster(t, Plan{Seed: 1, Nodes: 3, FaultTime: time.Second, Apps: 1})
	defer x.end()
	x.write(t, 5)
	was := x.leader
	was.host.diskFault.Store(how)
	begin := func(l *process) (txn.BeginResult, error) {
		return l.node.Begin(t.Context(), txn.Options{ID: txn.NewID(time.Now(), x.rng.entropy())})
	}
	_, err := begin(was)
	if !errors.Is(err, txn.ErrInDoubt) && !errors.Is(err, txn.ErrUnavailable) {
		t.Errorf("the call that the disk failed for: %v", err)
	}
	if _, err = begin(was); !errors.Is(err, txn.ErrUnavailable) {
		t.Errorf("the next call: %v; want that it is unavailable", err)
	}
	sleep(10 * time.Second)
	select {
	case <-was.dead:
	default:
		t.Fatal("it goes on without a disk")
	}
	if x.leader = x.w.leader(); x.leader == nil {
		t.Fatalf("no leader\n%s", x.w.Trace())
	}
	x.write(t, 5)
	if was.host.running() != nil {
		t.Error("it has come back without a disk")
	}
	was.host.diskFault.Store(diskHealthy)
	sleep(5 * time.Second)
	if was.host.running() == nil {
		t.Fatal("it has not come back")
	}
	x.follower = was.host
	x.write(t, 5)
	if behind := x.awaitCaughtUp(); behind != "" {
		t.Error(behind)
	}
}
