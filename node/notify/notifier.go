package notify

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// Notifier notifies the waiters for one transaction, and the watchers of all transactions, of
// changes. While there are none, it costs an applied entry nothing.
type Notifier struct {
	waiters  *waiters
	watching atomic.Int64
	closing  <-chan struct{} // ends every watch

	mu       sync.Mutex
	watchers map[*watcher]struct{} // guarded by mu
}

// watcher receives every change; one that does not keep up is dropped.
type watcher struct {
	changes chan machine.Change
	lagging bool // guarded by Notifier.mu
}

// watchBuffer is how many changes a watcher may fall behind.
const watchBuffer = 4096

// errLagging ends a watch whose consumer is too slow.
var errLagging = fmt.Errorf("%w: the watcher fell more than %d events behind; list, then watch again", txn.ErrUnavailable, watchBuffer)

// New makes a Notifier, whose watches end when closing is closed; end its waits with [Notifier.Close].
func New(closing <-chan struct{}) (*Notifier, error) {
	w, err := newWaiters()
	if err != nil {
		return nil, err
	}
	return &Notifier{waiters: w, closing: closing, watchers: make(map[*watcher]struct{})}, nil
}

// Publish notifies waiters and watchers of the changes of an applied entry.
func (h *Notifier) Publish(changes []machine.Change) {
	h.waiters.wakeChanged(changes)
	if h.watching.Load() == 0 || len(changes) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range changes {
		for w := range h.watchers {
			select {
			case w.changes <- c:
			default:
				h.dropLocked(w)
			}
		}
	}
}

// Replaced is called when the state was replaced as a whole: waiters check again, and watchers,
// which have missed changes, are dropped.
func (h *Notifier) Replaced() {
	h.waiters.wakeAll()
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watchers {
		h.dropLocked(w)
	}
}

// dropLocked ends a watch that has missed changes; the caller holds mu.
func (h *Notifier) dropLocked(w *watcher) {
	w.lagging = true
	delete(h.watchers, w)
	close(w.changes)
}

// Watch yields changes until ctx ends, the node stops, or the consumer falls too far behind, which
// is an error.
func (h *Notifier) Watch(ctx context.Context) iter.Seq2[machine.Change, error] {
	return func(yield func(machine.Change, error) bool) {
		w := &watcher{changes: make(chan machine.Change, watchBuffer)}
		h.watching.Add(1)
		defer h.watching.Add(-1)
		h.mu.Lock()
		h.watchers[w] = struct{}{}
		h.mu.Unlock()
		defer func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			delete(h.watchers, w)
		}()
		for {
			select {
			case c, ok := <-w.changes:
				if !ok {
					yield(machine.Change{}, errLagging)
					return
				}
				if !yield(c, nil) {
					return
				}
			case <-ctx.Done():
				return
			case <-h.closing:
				return
			}
		}
	}
}
