package node

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/txmgr/txmgr/timeout/purgatory"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// waiters is where those are parked who wait for one transaction. What has changed is only noted, and looked at by a
// goroutine that is there while there is something to look at: a hundred thousand waiters would hold up the log, or
// whoever lays leadership down, for as long as they take to be tried.
type waiters struct {
	requests *purgatory.Purgatory[txn.ID]

	mu      sync.Mutex
	changed []txn.ID // guarded by mu: their waiters are to be tried
	all     bool     // guarded by mu: so is everybody
	busy    bool     // guarded by mu: somebody does it
	closed  bool     // guarded by mu

	checking sync.WaitGroup // the goroutine that does it
}

// maxChanged is how many changes are noted one by one. When more have gathered, everybody is tried.
const maxChanged = 1 << 16

func newWaiters() (*waiters, error) {
	p, err := purgatory.Start[txn.ID](purgatory.Config{})
	if err != nil {
		return nil, err
	}
	return &waiters{requests: p}, nil
}

// wakeChanged has the waiters of what has changed tried soon. While nobody waits it costs next to nothing: who comes now
// sees the change.
func (w *waiters) wakeChanged(changes []machine.Change) {
	if len(changes) == 0 || w.requests.Len() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.changed)+len(changes) > maxChanged {
		w.changed, w.all = w.changed[:0], true
	}
	if !w.all {
		for _, c := range changes {
			w.changed = append(w.changed, c.ID)
		}
	}
	w.startLocked()
}

// wakeAll has everybody tried soon, when it is not a transaction that has changed but the node.
func (w *waiters) wakeAll() {
	if w.requests.Len() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changed, w.all = w.changed[:0], true
	w.startLocked()
}

func (w *waiters) startLocked() {
	if !w.busy && !w.closed {
		w.busy = true
		w.checking.Go(w.recheck)
	}
}

// recheck tries waiters until nothing is noted.
func (w *waiters) recheck() {
	var ids []txn.ID
	for {
		w.mu.Lock()
		ids, w.changed = w.changed, ids[:0]
		all := w.all
		w.all = false
		if w.busy = all || len(ids) > 0; !w.busy {
			w.changed = nil
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
		if all {
			w.requests.CheckAll()
			continue
		}
		for _, id := range ids {
			w.requests.Check(id)
		}
	}
}

// wait returns nil when look, which must not block, has reported true; [purgatory.ErrStopped] when the node stops; and
// another error when ctx has ended.
func (w *waiters) wait(ctx context.Context, id txn.ID, check func() bool) error {
	return w.requests.Wait(ctx, check, timeLeft(ctx), id)
}

// timeLeft is how long ctx lasts.
func timeLeft(ctx context.Context) time.Duration {
	if d, ok := ctx.Deadline(); ok {
		return time.Until(d)
	}
	return math.MaxInt64
}

// close ends every wait, and refuses those to come.
func (w *waiters) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.requests.Stop()
	w.checking.Wait()
}
