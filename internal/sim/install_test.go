package sim

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// TestOlderSnapshot: a snapshot reaches a follower that has applied more. raft would go back to it,
// and panic: the entries after it are no longer in the follower's log.
func TestOlderSnapshot(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(*testing.T, *testCluster)
	}{
		{"it was sent before a newer one, and comes after it", lateSnapshot},
		{"the follower has entries whose answers were lost, and has shortened its log", lostAnswers},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := newTestCluster(t, Plan{Seed: 1, Nodes: 3, FaultTime: time.Second, Apps: 1, Cut: 30})
				defer x.end()
				c.do(t, x)
				x.write(t, 5)
				if behind := x.awaitCaughtUp(); behind != "" {
					t.Errorf("%v later: %s\n%s", catchUpBound, behind, x.w.Trace())
				}
			})
		})
	}
}

// lateSnapshot delays two snapshots, as at a node that is suspended, and delivers the older one
// last.
func lateSnapshot(t *testing.T, x *testCluster) {
	x.write(t, 20)
	x.cut(true)
	x.write(t, 40)
	x.snapshot(t, x.leader)
	older := x.newest(x.leader)
	x.write(t, 60)
	x.snapshot(t, x.leader)
	newer := x.newest(x.leader)
	x.cut(false)
	if behind := x.awaitCaughtUp(); behind != "" {
		t.Fatal(behind)
	}
	if got := x.newest(x.follower.running()); got.meta.Index != newer.meta.Index {
		t.Fatalf("the follower has the snapshot of %d; want %d", got.meta.Index, newer.meta.Index)
	}
	command := &raft.InstallSnapshotRequest{
		RPCHeader: raft.RPCHeader{
			ProtocolVersion: raft.ProtocolVersionMax,
			ID:              []byte(x.leader.host.name), Addr: []byte(x.leader.host.addr),
		},
		SnapshotVersion: older.meta.Version, Term: older.meta.Term,
		LastLogIndex: older.meta.Index, LastLogTerm: older.meta.Term, Size: older.meta.Size,
		Configuration: raft.EncodeConfiguration(older.meta.Configuration), ConfigurationIndex: older.meta.ConfigurationIndex,
	}
	timer := time.NewTimer(snapshotTimeout)
	defer timer.Stop()
	a, err := x.w.net.peer(x.follower.addr).handle(request{command: command, body: older.body, complete: true}, timer)
	if err != nil || a.Error == nil {
		t.Errorf("a snapshot of %d after one of %d: %v, answer %+v; want a refusal", older.meta.Index, newer.meta.Index, err, a)
	}
}

// lostAnswers gives a follower entries that its leader does not know it to have, and removes what
// the leader sends before them.
func lostAnswers(t *testing.T, x *testCluster) {
	x.write(t, 30)
	sleep(time.Second)
	var hears atomic.Bool
	x.w.net.change(func(n *network) {
		n.drops = func(_, to int, command, answer any) bool {
			a, ok := command.(*raft.AppendEntriesRequest)
			r, fine := answer.(*raft.AppendEntriesResponse)
			return !hears.Load() && to == x.follower.index && ok && fine && len(a.Entries) > 0 && r.Success
		}
	})
	x.write(t, 5)
	x.snapshot(t, x.leader)
	x.write(t, 25)
	if behind := x.awaitCaughtUp(); behind != "" {
		t.Fatal(behind)
	}
	x.snapshot(t, x.follower.running())
	if at, have := x.newest(x.leader).meta.Index, x.newest(x.follower.running()).meta.Index; at >= have {
		t.Fatalf("the leader's snapshot is of %d, the follower's of %d: nothing is tried", at, have)
	}
	sleep(5 * time.Second)
	hears.Store(true)
	if x.w.faultCount("older snapshot refused") == 0 {
		t.Error("no older snapshot was refused: nothing was tried")
	}
}
