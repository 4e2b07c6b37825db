package purgatory

import (
	"sync"
	"sync/atomic"
	"weak"
)

// shard holds the watcher lists of some of the keys.
//
// Every watcher that is made is removed once, and every request that is collected is counted once
// for each of its watchers, by a cleanup. So the collected less the removed is the number of
// watchers without a request in the lists, once the garbage collector has seen all of them, whether
// they were removed before that or after.
type shard[K comparable] struct {
	entries  atomic.Int64 // watchers in lists
	cleared  atomic.Int64 // watchers whose request was collected, less those removed
	sweeping atomic.Bool

	mu    sync.Mutex
	lists map[K]*watcher // the latest watcher of each key that has one; guarded by mu
	peak  int            // the most keys in lists since the map was made; guarded by mu
}

// watcher is one entry of a watcher list. It does not keep its request alive.
type watcher struct {
	request weak.Pointer[Parked] // none once the watcher was removed
	next    *watcher             // the one before it in time; kept when the watcher is removed, for walks that stand here
}

func (w *watcher) removed() bool { return w.request == weak.Pointer[Parked]{} }

const (
	// minSweep is how many watchers of a shard may stay without a request, whatever else there is in it.
	minSweep = 32
	// minShrink is the number of keys below which a map is not worth replacing by a smaller one.
	minShrink = 64
)

func (s *shard[K]) watch(key K, request weak.Pointer[Parked]) {
	w := &watcher{request: request}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lists == nil {
		s.lists = make(map[K]*watcher)
	}
	w.next = s.lists[key]
	s.lists[key] = w
	s.peak = max(s.peak, len(s.lists))
	s.entries.Add(1)
}

// removeLocked takes w, which follows prev in the list of key, or leads it if prev is nil, out of it.
func (s *shard[K]) removeLocked(key K, prev, w *watcher) {
	switch {
	case prev != nil:
		prev.next = w.next
	case w.next != nil:
		s.lists[key] = w.next
	default:
		delete(s.lists, key)
		s.shrinkLocked()
	}
	w.request = weak.Pointer[Parked]{}
	s.entries.Add(-1)
	s.cleared.Add(-1)
}

// shrinkLocked replaces a map that has become much too large: a map does not give back the memory
// of its peak.
func (s *shard[K]) shrinkLocked() {
	n := len(s.lists)
	if s.peak < minShrink || n > s.peak/4 {
		return
	}
	smaller := make(map[K]*watcher, n)
	for key, w := range s.lists { //archtest:order a copy has no order
		smaller[key] = w
	}
	s.lists, s.peak = smaller, n
}

// collected is called by the runtime when the request of a watcher is gone. It sweeps the lists
// when every other watcher is one without a request, so that a sweep costs as much as what it
// removes.
func (s *shard[K]) collected() {
	s.cleared.Add(1)
	for s.needsSweep() && s.sweeping.CompareAndSwap(false, true) {
		s.sweep()
		s.sweeping.Store(false)
	}
}

func (s *shard[K]) needsSweep() bool {
	cleared := s.cleared.Load()
	return cleared >= minSweep && 2*cleared >= s.entries.Load()
}

// sweep removes from all lists the watchers without a request and those of completed requests.
func (s *shard[K]) sweep() {
	w := walk[K]{shard: s, keys: s.keys(), sweep: true}
	w.nextList()
	w.next()
}

// keys returns the keys that are watched.
func (s *shard[K]) keys() []K {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := make([]K, 0, len(s.lists))
	for key := range s.lists { //archtest:order every key is seen to, and none waits for another
		keys = append(keys, key)
	}
	return keys
}
