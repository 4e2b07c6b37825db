package notify

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/txmgr/txmgr/timeout/purgatory"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// waiters parks the requests that wait for one transaction. A change is only recorded, and its
// waiters are checked by a goroutine that exists while there are any to check: a hundred thousand
// checks would hold up the log, or the goroutine that gives up leadership.
type waiters struct {
	requests *purgatory.Purgatory[txn.ID]

	mu      sync.Mutex
	changed []txn.ID // guarded by mu: transactions whose waiters are to be checked
	all     bool     // guarded by mu: all waiters are to be checked
	busy    bool     // guarded by mu: the goroutine runs
	closed  bool     // guarded by mu

	checking sync.WaitGroup // the goroutine that checks
}

// maxChanged is how many changes are recorded one by one. Beyond it all waiters are checked.
const maxChanged = 1 << 16

func newWaiters() (*waiters, error) {
	p, err := purgatory.Start[txn.ID](purgatory.Config{})
	if err != nil {
		return nil, err
	}
	return &waiters{requests: p}, nil
}

// wakeChanged schedules a check of the waiters of changed transactions. Without waiters it costs
// next to nothing: a request that arrives now sees the change.
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

// WakeAll schedules a check of all waiters, when not a transaction has changed but the node.
func (h *Notifier) WakeAll() { h.waiters.wakeAll() }

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

// recheck checks waiters until none are scheduled.
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

// Wait waits for a transaction. It returns nil when check, which must not block, has reported true;
// [purgatory.ErrStopped] when the node stops; and another error when ctx has ended.
func (h *Notifier) Wait(ctx context.Context, id txn.ID, check func() bool) error {
	return h.waiters.requests.Wait(ctx, check, timeLeft(ctx), id)
}

// Park is [Notifier.Wait] without a goroutine. ctx only gives the deadline.
func (h *Notifier) Park(ctx context.Context, id txn.ID, r purgatory.Request) (*purgatory.Parked, error) {
	return h.waiters.requests.Park(r, timeLeft(ctx), id)
}

// Waiting returns how many requests wait.
func (h *Notifier) Waiting() int { return h.waiters.requests.Len() }

// timeLeft is the time until the deadline of ctx.
func timeLeft(ctx context.Context) time.Duration {
	if d, ok := ctx.Deadline(); ok {
		return time.Until(d)
	}
	return math.MaxInt64
}

// Close ends every wait, and refuses later ones.
func (h *Notifier) Close() { h.waiters.close() }

func (w *waiters) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.requests.Stop()
	w.checking.Wait()
}
