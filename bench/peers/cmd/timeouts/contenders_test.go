package main

import (
	"math/rand/v2"
	"testing"

	"github.com/txmgr/txmgr/bench/peers/survivalpeers"
	"github.com/txmgr/txmgr/internal/timeoutbench"
	"github.com/txmgr/txmgr/timeout"
)

// TestPeersEndInTime checks that contenders that take the time from their caller end every entry
// once: never early, and no later than they promise.
func TestPeersEndInTime(t *testing.T) {
	t.Run(channels, func(t *testing.T) { endInTime(t, newChannelWheel(true)) })
	t.Run("otter", func(t *testing.T) { endInTime(t, newOtter(true)) })
	t.Run(stdHeap, func(t *testing.T) {
		endInTime[*survivalpeers.Item](t, byHandleAndTime[*survivalpeers.Item]{&survivalpeers.Heap{}})
	})
	t.Run(btree, func(t *testing.T) {
		endInTime[survivalpeers.Key](t, byHandleAndTime[survivalpeers.Key]{survivalpeers.NewTree()})
	})
}

func endInTime[H any](t *testing.T, timers timeoutbench.Timers[H]) {
	if s, ok := timers.(timeoutbench.Stopper); ok {
		defer s.Stop()
	}
	late := timeout.Tick(0)
	if l, ok := timers.(timeoutbench.Late); ok {
		late = l.Late()
	}
	const entries, last = 2000, 2*slots + 500 // beyond two turns of the channel wheel
	r := rand.New(rand.NewPCG(1, 2))
	ids, ends, handles := make([]uint64, entries), make([]timeout.Tick, entries), make([]H, entries)
	for n := range ids {
		ids[n], ends[n] = uint64(n+1), 1+timeout.Tick(r.Uint64N(last))
	}
	timers.Add(ids, ends, handles)
	if got := timers.Cancel(ids[:entries/4], handles[:entries/4]); got != entries/4 {
		t.Fatalf("%d of %d entries cancelled", got, entries/4)
	}
	buf, ended := make([]uint64, 3), make(map[uint64]bool)
	for to := range last + late + 1 {
		for n := len(buf); n == len(buf); {
			n = timers.(timeoutbench.Stepper).Step(to, buf)
			for _, id := range buf[:n] {
				if end := ends[id-1]; ended[id] || id <= entries/4 || to < end || to > end+late {
					t.Fatalf("entry %d of tick %d ended in tick %d; ended before: %v", id, end, to, ended[id])
				}
				ended[id] = true
			}
		}
	}
	if len(ended) != entries-entries/4 {
		t.Errorf("%d of %d entries ended", len(ended), entries-entries/4)
	}
}

func TestRotation(t *testing.T) {
	found, err := rotate(2000)
	if err != nil || found[wholeCall] <= 0 || found[underLock] <= 0 {
		t.Errorf("%v, %v", found, err)
	}
}
