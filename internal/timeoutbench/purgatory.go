package timeoutbench

import (
	"sync/atomic"
	"time"

	"github.com/txmgr/txmgr/timeout"
	"github.com/txmgr/txmgr/timeout/purgatory"
)

// purgatories are requests in a purgatory, each of which waits for its own id. Cancel makes the
// condition hold and checks the key, as when a transaction ends for which a client waits.
type purgatories struct{ purgatory *purgatory.Purgatory[uint64] }

type purgatoryRequest struct{ satisfied atomic.Bool }

func (w *purgatoryRequest) TryComplete() bool        { return w.satisfied.Load() }
func (*purgatoryRequest) Complete(purgatory.Outcome) {}

// newPurgatory has one kind only: a purgatory has its own locks.
func newPurgatory(bool) Timers[*purgatoryRequest] {
	p, err := purgatory.Start[uint64](purgatory.Config{})
	if err != nil {
		panic(err) // the configuration is a constant
	}
	return &purgatories{p}
}

func (c *purgatories) Add(ids []uint64, ends []timeout.Tick, handles []*purgatoryRequest) {
	for n, id := range ids {
		w := new(purgatoryRequest)
		// An hour more, so that none ends by the wall clock while the others are measured.
		if _, err := c.purgatory.Park(w, time.Hour+time.Duration(ends[n])*100*time.Millisecond, id); err == nil {
			handles[n] = w
		}
	}
}

func (c *purgatories) Cancel(ids []uint64, handles []*purgatoryRequest) int {
	cancelled := 0
	for n, w := range handles {
		w.satisfied.Store(true)
		cancelled += c.purgatory.Check(ids[n])
	}
	return cancelled
}

func (c *purgatories) Stop() { c.purgatory.Stop() }
