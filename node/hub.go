package node

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// hub tells those that wait for one transaction, or watch all of them, that
// something has changed. It costs an applied entry nothing while nobody waits.
type hub struct {
	parked  atomic.Int64    // waiters and watchers
	closing <-chan struct{} // ends every watch

	mu       sync.Mutex
	waiters  map[txn.ID]map[*waiter]struct{} // guarded by mu
	watchers map[*watcher]struct{}           // guarded by mu
}

// waiter is poked when its transaction has changed.
type waiter struct{ poke chan struct{} } // capacity 1

// watcher receives every change; one that does not keep up is cut off.
type watcher struct {
	changes chan machine.Change
	lagging bool // guarded by hub.mu
}

// watchBuffer is how far a watcher may fall behind.
const watchBuffer = 4096

func newHub(closing <-chan struct{}) *hub {
	return &hub{closing: closing, waiters: make(map[txn.ID]map[*waiter]struct{}), watchers: make(map[*watcher]struct{})}
}

func (h *hub) publish(changes []machine.Change) {
	if h.parked.Load() == 0 || len(changes) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range changes {
		for w := range h.waiters[c.ID] {
			w.nudge()
		}
		for w := range h.watchers {
			select {
			case w.changes <- c:
			default:
				h.cutLocked(w)
			}
		}
	}
}

// replaced is told that the state was replaced as a whole: waiters look again, and watchers,
// who have missed changes, are cut off.
func (h *hub) replaced() {
	h.rouse()
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watchers {
		h.cutLocked(w)
	}
}

// cutLocked ends a watch that has missed something; mu is held.
func (h *hub) cutLocked(w *watcher) {
	w.lagging = true
	delete(h.watchers, w)
	close(w.changes)
}

// rouse pokes every waiter, when it is not a transaction that has changed but the
// node.
func (h *hub) rouse() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, ws := range h.waiters {
		for w := range ws {
			w.nudge()
		}
	}
}

func (w *waiter) nudge() {
	select {
	case w.poke <- struct{}{}:
	default:
	}
}

func (h *hub) park(id txn.ID) *waiter {
	w := &waiter{poke: make(chan struct{}, 1)}
	h.parked.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiters[id] == nil {
		h.waiters[id] = make(map[*waiter]struct{})
	}
	h.waiters[id][w] = struct{}{}
	return w
}

func (h *hub) leave(id txn.ID, w *waiter) {
	h.parked.Add(-1)
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.waiters[id], w)
	if len(h.waiters[id]) == 0 {
		delete(h.waiters, id)
	}
}

// watch yields changes until ctx ends, the node stops, or the consumer has fallen too far behind,
// which is an error.
func (h *hub) watch(ctx context.Context) iter.Seq2[machine.Change, error] {
	return func(yield func(machine.Change, error) bool) {
		w := &watcher{changes: make(chan machine.Change, watchBuffer)}
		h.parked.Add(1)
		defer h.parked.Add(-1)
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
