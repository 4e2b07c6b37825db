package timeoutbench

import (
	"sync/atomic"
	"time"

	"github.com/txmgr/txmgr/timeout"
	"github.com/txmgr/txmgr/timeout/purgatory"
)

// waiters are requests in a purgatory, each of which waits for its own id. To cancel one is to let its condition come
// about and to say so, as when a transaction ends that somebody waits for.
type waiters struct{ purgatory *purgatory.Purgatory[uint64] }

type waiter struct{ over atomic.Bool }

func (w *waiter) TryComplete() bool        { return w.over.Load() }
func (*waiter) Complete(purgatory.Outcome) {}

// newWaiters has one kind only: a purgatory has its locks inside.
func newWaiters(bool) Timers[*waiter] {
	p, err := purgatory.Start[uint64](purgatory.Config{})
	if err != nil {
		panic(err) // the configuration is ours
	}
	return &waiters{p}
}

func (c *waiters) Add(ids []uint64, ends []timeout.Tick, handles []*waiter) {
	for n, id := range ids {
		w := new(waiter)
		// An hour more, so that none ends by the clock on the wall while the others are measured.
		if _, err := c.purgatory.Park(w, time.Hour+time.Duration(ends[n])*100*time.Millisecond, id); err == nil {
			handles[n] = w
		}
	}
}

func (c *waiters) Cancel(ids []uint64, handles []*waiter) int {
	cancelled := 0
	for n, w := range handles {
		w.over.Store(true)
		cancelled += c.purgatory.Check(ids[n])
	}
	return cancelled
}

func (c *waiters) Stop() { c.purgatory.Stop() }
