package main

import (
	"time"

	"github.com/txmgr/txmgr/bench/peers/survivalpeers"
	"github.com/txmgr/txmgr/internal/timeoutbench"
	"github.com/txmgr/txmgr/timeout/heap"
	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/timeout/wheel"
)

// Names of the contenders with goals.
const (
	ownSurvival  = "survival"
	lockedHeap   = "heap+mutex"
	lockedWheel  = "wheel+mutex"
	ownPurgatory = "purgatory"
	afterFunc    = "time.AfterFunc"
	stdHeap      = "container/heap"
	btree        = "google/btree"
	channels     = "channel wheel"
)

// contenders are the structures and their peers, for size entries.
func contenders(size int) []timeoutbench.Contender {
	return append(
		timeoutbench.Contenders(),
		timeoutbench.New("survival+mutex", func(bool) timeoutbench.Timers[survival.Ref] { return timeoutbench.NewSurvival(true) }),
		timeoutbench.New(lockedHeap, func(bool) timeoutbench.Timers[*heap.Node[uint64]] { return timeoutbench.NewHeap(true) }),
		timeoutbench.New(lockedWheel, func(bool) timeoutbench.Timers[*wheel.Task[uint64]] { return timeoutbench.NewWheel(true) }),
		runtimeTimers(),
		timeoutbench.New(stdHeap, func(bool) timeoutbench.Timers[*survivalpeers.Item] {
			return byHandleAndTime[*survivalpeers.Item]{&survivalpeers.Heap{}}
		}),
		timeoutbench.New(btree, func(bool) timeoutbench.Timers[survivalpeers.Key] {
			return byHandleAndTime[survivalpeers.Key]{survivalpeers.NewTree()}
		}),
		timeoutbench.New("otter", newOtter),
		theine(size),
		timeoutbench.New(channels, newChannelWheel),
	)
}

func names() (all []string) {
	for _, c := range contenders(timeoutbench.MinSize) {
		all = append(all, c.Name)
	}
	return all
}

// byHandle is a contender of survivalpeers that finds an entry by its handle alone.
type byHandle[H any] struct{ survivalpeers.Timers[H] }

func (c byHandle[H]) Cancel(_ []uint64, handles []H) int { return c.Timers.Cancel(handles) }

// byHandleAndTime is a byHandle contender that also takes the time from its caller.
type byHandleAndTime[H any] struct{ survivalpeers.Virtual[H] }

func (c byHandleAndTime[H]) Cancel(_ []uint64, handles []H) int { return c.Virtual.Cancel(handles) }

func (c byHandleAndTime[H]) Step(to survival.Tick, buf []uint64) int {
	return c.Virtual.Expire(to, buf)
}

// runtimeTimers have ticks so long that none ends during a measurement, as if time stood still.
func runtimeTimers() timeoutbench.Contender {
	c := timeoutbench.New(afterFunc, func(bool) timeoutbench.Timers[*time.Timer] {
		return byHandle[*time.Timer]{&survivalpeers.AfterFunc{Unit: time.Hour}}
	})
	c.Expire = func(size int, l timeoutbench.Load) (float64, error) {
		timers := &survivalpeers.AfterFunc{Unit: 1}
		handles := make([]*time.Timer, 1)
		return measureWallClock(size, l, wallClockContender{
			add: func(id uint64, after time.Duration) {
				timers.Add([]uint64{id}, []survival.Tick{survival.Tick(after)}, handles)
			},
			ended: func() uint64 { return timers.Fired.Load() },
		})
	}
	return c
}
