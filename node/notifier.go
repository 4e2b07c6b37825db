package node

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/txmgr/txmgr/txn/machine"
)

// notifier notifies the waiters for one transaction, and the watchers of all transactions, of
// changes. While there are none, it costs an applied entry nothing.
type notifier struct {
	waiters  *waiters
	watching atomic.Int64
	closing  <-chan struct{} // ends every watch

	mu       sync.Mutex
	watchers map[*watcher]struct{} // guarded by mu
}

// watcher receives every change; one that does not keep up is dropped.
type watcher struct {
	changes chan machine.Change
	lagging bool // guarded by notifier.mu
}

// watchBuffer is how many changes a watcher may fall behind.
const watchBuffer = 4096

func newNotifier(closing <-chan struct{}) (*notifier, error) {
	w, err := newWaiters()
	if err != nil {
		return nil, err
	}
	return &notifier{waiters: w, closing: closing, watchers: make(map[*watcher]struct{})}, nil
}

func (h *notifier) publish(changes []machine.Change) {
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

// replaced is called when the state was replaced as a whole: waiters check again, and watchers,
// which have missed changes, are dropped.
func (h *notifier) replaced() {
	h.waiters.wakeAll()
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watchers {
		h.dropLocked(w)
	}
}

// dropLocked ends a watch that has missed changes; the caller holds mu.
func (h *notifier) dropLocked(w *watcher) {
	w.lagging = true
	delete(h.watchers, w)
	close(w.changes)
}

// watch yields changes until ctx ends, the node stops, or the consumer falls too far behind, which
// is an error.
func (h *notifier) watch(ctx context.Context) iter.Seq2[machine.Change, error] {
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
