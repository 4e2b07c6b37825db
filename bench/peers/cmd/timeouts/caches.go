package main

import (
	"sync/atomic"
	"time"

	theinecache "github.com/Yiling-J/theine-go"
	"github.com/maypok86/otter/v2"

	"github.com/txmgr/txmgr/internal/timeoutbench"
	"github.com/txmgr/txmgr/timeout"
)

// interval is the length of a tick.
const interval = 100 * time.Millisecond

// otterCache are entries of a cache; the value of one is its time to live.
type otterCache struct {
	cache *otter.Cache[uint64, time.Duration]
	clock manualClock
	due   []uint64
	taken int // of due
}

// manualClock is a clock that stands still until it is moved.
type manualClock struct{ now atomic.Int64 }

func (c *manualClock) NowNano() int64 { return c.now.Load() }

// Tick returns a channel without ticks: nothing happens between two calls.
func (*manualClock) Tick(time.Duration) <-chan time.Time { return nil }

// newOtter makes the cache do its maintenance on the goroutine of the caller, where its time
// counts.
func newOtter(bool) timeoutbench.Timers[struct{}] {
	c := new(otterCache)
	c.clock.now.Store(int64(interval))
	c.cache = otter.Must(&otter.Options[uint64, time.Duration]{
		ExpiryCalculator: otter.ExpiryCreatingFunc(func(e otter.Entry[uint64, time.Duration]) time.Duration { return e.Value }),
		OnAtomicDeletion: func(e otter.DeletionEvent[uint64, time.Duration]) {
			if e.Cause == otter.CauseExpiration {
				c.due = append(c.due, e.Key)
			}
		},
		Executor: func(do func()) { do() },
		Clock:    &c.clock,
	})
	return c
}

func (c *otterCache) Add(ids []uint64, ends []timeout.Tick, _ []struct{}) {
	for n, id := range ids {
		c.cache.Set(id, time.Duration(ends[n])*interval)
	}
}

func (c *otterCache) Cancel(ids []uint64, _ []struct{}) int {
	cancelled := 0
	for _, id := range ids {
		if _, ok := c.cache.Invalidate(id); ok {
			cancelled++
		}
	}
	return cancelled
}

func (c *otterCache) Step(to timeout.Tick, buf []uint64) int {
	if c.taken == len(c.due) {
		c.due, c.taken = c.due[:0], 0
		c.clock.now.Store(int64(to+1) * int64(interval))
		c.cache.CleanUp()
	}
	n := copy(buf, c.due[c.taken:])
	c.taken += n
	return n
}

// Late allows for its wheel, which checks a bucket when its time has passed: one of a second, one
// of a minute.
func (*otterCache) Late() timeout.Tick { return 700 }

func (c *otterCache) Stop() { c.cache.StopAllGoroutines() }

// theineCache are entries of the other cache, which uses the wall clock.
type theineCache struct {
	cache *theinecache.Cache[uint64, struct{}]
	ended atomic.Uint64
}

func newTheine(size int) *theineCache {
	c := new(theineCache)
	// Its capacity is twice the number of entries, so that none is evicted.
	built, err := theinecache.NewBuilder[uint64, struct{}](int64(2*size + 100_000)).
		RemovalListener(func(_ uint64, _ struct{}, reason theinecache.RemoveReason) {
			if reason == theinecache.EXPIRED {
				c.ended.Add(1)
			}
		}).Build()
	if err != nil {
		panic(err) // the size is a valid one
	}
	c.cache = built
	return c
}

func theine(size int) timeoutbench.Contender {
	c := timeoutbench.New("theine", func(bool) timeoutbench.Timers[struct{}] { return newTheine(size) })
	c.Expire = func(size int, l timeoutbench.Load) (float64, error) {
		t := newTheine(size)
		defer t.Stop()
		return measureWallClock(size, l, wallClockContender{
			add:   func(id uint64, after time.Duration) { t.cache.SetWithTTL(id, struct{}{}, 1, after) },
			ended: t.ended.Load,
		})
	}
	return c
}

func (c *theineCache) Add(ids []uint64, ends []timeout.Tick, _ []struct{}) {
	for n, id := range ids {
		c.cache.SetWithTTL(id, struct{}{}, 1, time.Hour+time.Duration(ends[n])*interval)
	}
}

// Cancel counts every entry as cancelled: the cache does not report whether an entry existed.
func (c *theineCache) Cancel(ids []uint64, _ []struct{}) int {
	for _, id := range ids {
		c.cache.Delete(id)
	}
	return len(ids)
}

func (c *theineCache) Flush() { c.cache.Wait() }

func (c *theineCache) Stop() { c.cache.Close() }
