package purgatory

const (
	// batch is how many requests are taken from a list at a time to be tried.
	batch = 64
	// stride is how many watchers are looked at while a shard is locked.
	stride = 512
)

// walk goes through lists of one shard, each from the latest watcher to the first, and removes
// those whose request is gone or completed: on the way those that it meets so, and at the end those
// whose request was completed since the walk returned it. The shard is locked for a stride at a
// time. Watchers that come meanwhile are put before those that the walk has yet to see, so it
// always ends; only a walk that has left nothing behind begins at the front.
type walk[K comparable] struct {
	shard  *shard[K]
	key    K        // of the present list
	more   bool     // there is something left to see in it
	keys   []K      // of all lists; none for a walk through one
	list   int      // how many of keys are done
	cursor *watcher // the last that was seen and kept, nil if none was; it may be removed by now
	sweep  bool     // the walk is there to remove watchers, and takes no requests

	ready   [batch]*Parked // requests that were taken
	taken   int            // how many of ready
	handled int            // how many of those next has returned
	last    *Parked        // of those
	ended   bool           // a request is completed that has a watcher in a list that was walked
}

// next returns a request that watched one of the keys when the walk began, or false when there is
// none left. Then the lists of the keys have no watcher of a request that was completed when the
// walk met it, or when next was called again.
func (w *walk[K]) next() (*Parked, bool) {
	w.ended = w.ended || w.last != nil && w.last.Done()
	w.last = nil
	for w.handled == w.taken {
		switch {
		case !w.more && !w.ended:
			return nil, false
		case !w.more:
			w.secondPass()
		}
		w.read()
	}
	w.last = w.ready[w.handled]
	w.ready[w.handled] = nil
	w.handled++
	return w.last, true
}

// nextList goes to the next list.
func (w *walk[K]) nextList() {
	if w.more = w.list < len(w.keys); w.more {
		w.key, w.cursor = w.keys[w.list], nil
		w.list++
	}
}

// secondPass begins a second pass over all lists, which only removes: the watcher of a request that
// was returned had to stay for the request to be tried. Most walks complete nothing and need none.
func (w *walk[K]) secondPass() {
	w.more, w.list, w.cursor, w.sweep, w.ended = true, 0, nil, true, false
	if len(w.keys) > 0 {
		w.nextList()
	}
}

// read reads the next stride of watchers.
func (w *walk[K]) read() {
	s := w.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	w.taken, w.handled = 0, 0
	for looked := 0; w.more && looked < stride && w.taken < batch; {
		looked += w.readListLocked(stride - looked)
	}
}

// readListLocked reads at most limit watchers of the present list, and goes to the next list when
// it has ended. It returns how many it has read, a list itself counting as one.
func (w *walk[K]) readListLocked(limit int) (looked int) {
	s, key := w.shard, w.key
	// A watcher can be removed only when the one before it is known to be in the list.
	prev, known, n := w.cursor, true, (*watcher)(nil)
	if w.sweep && prev != nil && prev.removed() {
		prev = nil // it tries nothing, so it may begin at the front again
	}
	if prev == nil {
		n = s.lists[key]
	} else {
		known, n = !prev.removed(), prev.next
	}
	for looked = 1; n != nil && looked < limit && w.taken < batch; looked++ {
		w.cursor = n
		switch {
		case n.removed():
			known = false
		case w.keeps(n):
			prev, known = n, true
		case known:
			s.removeLocked(key, prev, n)
		default:
			w.ended = true // the second pass removes it
			prev, known = n, true
		}
		n = n.next
	}
	if n == nil {
		w.nextList()
	} else if known {
		w.cursor = prev
	}
	return looked
}

// keeps reports whether a watcher has to stay, because its request is not completed, and takes the
// request.
func (w *walk[K]) keeps(n *watcher) bool {
	r := n.request.Value()
	if r == nil || r.Done() {
		return false
	}
	if !w.sweep {
		w.ready[w.taken] = r
		w.taken++
	}
	return true
}

// each calls do for everything that next returns. If do panics, the rest are done before the panic
// goes on. Of several panics the first goes on.
func each[T any](next func() (T, bool), do func(T)) {
	returned := false
	defer func() {
		if returned {
			return
		}
		for t, ok := next(); ok; t, ok = next() {
			ignorePanic(do, t)
		}
	}()
	for t, ok := next(); ok; t, ok = next() {
		do(t)
	}
	returned = true
}

func ignorePanic[T any](do func(T), t T) {
	defer func() { _ = recover() }()
	do(t)
}
