package sim

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// TestFollowerCatchesUpAfterSnapshot is raft's livelock without randomness: a follower is sent a
// snapshot, and the answer to the first entries after it is lost. raft alone then sends snapshots
// for ever, because of the gap in the follower's log; the coordinator has to close it.
func TestFollowerCatchesUpAfterSnapshot(t *testing.T) {
	for _, lost := range []int{0, 1, 2} {
		t.Run(fmt.Sprintf("%d answers lost", lost), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { catchUp(t, lost) })
		})
	}
}

func catchUp(t *testing.T, lost int) {
	x := newTestCluster(t, Plan{Seed: 1, Nodes: 3, FaultTime: time.Second, Apps: 1, Unanchored: true})
	defer x.end()
	x.write(t, 20)
	sleep(time.Second)
	x.cut(true)
	x.write(t, 200)
	x.snapshot(t, x.leader)
	x.cut(false)
	if behind := x.awaitCaughtUp(); behind != "" {
		t.Fatalf("before any answer was lost: %s", behind)
	}
	if x.w.faultCount("snapshot sent") == 0 {
		t.Fatal("no snapshot was sent: nothing was tried")
	}
	eaten := x.dropAnswers(lost)
	x.write(t, 1)
	sleep(time.Second)
	x.write(t, 10)
	if behind := x.awaitCaughtUp(); behind != "" {
		t.Errorf("%v after the network was whole: %s; %d snapshots were sent\n%s", catchUpBound, behind, x.w.faultCount("snapshot sent"), x.w.Trace())
	}
	if int(eaten.Load()) != lost {
		t.Errorf("%d answers were lost; want %d", eaten.Load(), lost)
	}
}

// dropAnswers loses up to most answers of the follower to entries that it has stored. The returned
// counter counts them.
func (x *testCluster) dropAnswers(most int) *atomic.Int64 {
	eaten := new(atomic.Int64)
	x.w.net.change(func(n *network) {
		n.drops = func(_, to int, command, answer any) bool {
			a, ok := command.(*raft.AppendEntriesRequest)
			r, fine := answer.(*raft.AppendEntriesResponse)
			if to != x.follower.index || !ok || !fine || len(a.Entries) == 0 || !r.Success || int(eaten.Load()) == most {
				return false
			}
			eaten.Add(1)
			return true
		}
	})
	return eaten
}

// TestTwoSnapshotsInARow lets the log grow while a follower is being sent a snapshot, until the
// entries after that one are only in another one; and loses the first answers after each.
func TestTwoSnapshotsInARow(t *testing.T) {
	for _, lost := range []int{0, 1} {
		t.Run(fmt.Sprintf("%d answers lost", lost), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := newTestCluster(t, Plan{Seed: 1, Nodes: 3, FaultTime: time.Second, Apps: 1})
				defer x.end()
				x.write(t, 20)
				x.cut(true)
				x.write(t, 100)
				x.snapshot(t, x.leader)
				x.follower.slow(2 * time.Second)
				x.cut(false)
				for installed := range 2 {
					for began := x.w.now(); x.w.faultCount("snapshot sent") == installed; sleep(time.Millisecond) {
						if x.w.now() > began+catchUpBound {
							t.Fatalf("%d snapshots were sent; want 2\n%s", installed, x.w.Trace())
						}
					}
					x.write(t, 100)
					x.snapshot(t, x.leader)
				}
				x.follower.slow(time.Millisecond)
				eaten := x.dropAnswers(lost)
				x.write(t, 10)
				if behind := x.awaitCaughtUp(); behind != "" {
					t.Errorf("%v later: %s\n%s", catchUpBound, behind, x.w.Trace())
				}
				if int(eaten.Load()) != lost {
					t.Errorf("%d answers were lost; want %d", eaten.Load(), lost)
				}
			})
		})
	}
}
