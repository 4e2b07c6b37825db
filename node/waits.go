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

// waits is where those are parked who wait for one transaction. What has changed is only noted, and looked at by a
// goroutine that is there while there is something to look at: a hundred thousand waiters would hold up the log, or
// whoever lays leadership down, for as long as they take to be tried.
type waits struct {
	requests *purgatory.Purgatory[txn.ID]

	mu      sync.Mutex
	changed []txn.ID // guarded by mu: their waiters are to be tried
	all     bool     // guarded by mu: so is everybody
	busy    bool     // guarded by mu: somebody does it
	closed  bool     // guarded by mu

	trying sync.WaitGroup // the goroutine that does it
}

// maxChanged is how many changes are noted one by one. When more have gathered, everybody is tried.
const maxChanged = 1 << 16

func newWaits() (*waits, error) {
	p, err := purgatory.Start[txn.ID](purgatory.Config{})
	if err != nil {
		return nil, err
	}
	return &waits{requests: p}, nil
}

// note has the waiters of what has changed tried soon. While nobody waits it costs next to nothing: who comes now
// sees the change.
func (w *waits) note(changes []machine.Change) {
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

// rouse has everybody tried soon, when it is not a transaction that has changed but the node.
func (w *waits) rouse() {
	if w.requests.Len() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changed, w.all = w.changed[:0], true
	w.startLocked()
}

func (w *waits) startLocked() {
	if !w.busy && !w.closed {
		w.busy = true
		w.trying.Go(w.try)
	}
}

// try tries waiters until nothing is noted.
func (w *waits) try() {
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
func (w *waits) wait(ctx context.Context, id txn.ID, look func() bool) error {
	return w.requests.Wait(ctx, look, remaining(ctx), id)
}

// remaining is how long ctx lasts.
func remaining(ctx context.Context) time.Duration {
	if d, ok := ctx.Deadline(); ok {
		return time.Until(d)
	}
	return math.MaxInt64
}

// close ends every wait, and refuses those to come.
func (w *waits) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.requests.Stop()
	w.trying.Wait()
}
