package purgatory

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

func start[K comparable](t testing.TB) *Purgatory[K] {
	t.Helper()
	p, err := Start[K](Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return p
}

// Invariants is check, for the external tests of the package.
func (p *Purgatory[K]) Invariants() error { return p.check() }

// check verifies the watcher lists while they are not in use: invariant 6 of the package doc.
func (p *Purgatory[K]) check() error {
	for i := range p.shards {
		if err := p.shards[i].check(i); err != nil {
			return err
		}
	}
	return nil
}

func (s *shard[K]) check(i int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	watchers, dead := 0, 0
	for key, w := range s.lists {
		if w == nil {
			return fmt.Errorf("shard %d: the list of %v is empty", i, key)
		}
		for ; w != nil; w = w.next {
			watchers++
			if w.removed() {
				return fmt.Errorf("shard %d: a removed watcher is in the list of %v", i, key)
			}
			if w.request.Value() == nil {
				dead++
			}
		}
	}
	switch {
	case watchers != int(s.entries.Load()):
		return fmt.Errorf("shard %d counts %d watchers and has %d", i, s.entries.Load(), watchers)
	case int(s.cleared.Load()) > dead:
		return fmt.Errorf("shard %d counts %d watchers without a request and has %d", i, s.cleared.Load(), dead)
	case len(s.lists) > s.peak:
		return fmt.Errorf("shard %d has %d keys, more than its peak of %d", i, len(s.lists), s.peak)
	case s.peak >= minShrink && len(s.lists) < s.peak/4:
		return fmt.Errorf("shard %d has %d keys in a map made for %d", i, len(s.lists), s.peak)
	}
	return nil
}

// listed returns how many watchers the list of a key has.
func (p *Purgatory[K]) listed(key K) (n int) {
	s := p.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := s.lists[key]; w != nil; w = w.next {
		n++
	}
	return n
}

// awaitCleanups collects garbage until every cleanup has run: the shards count all of the watchers that have lost their request.
func (p *Purgatory[K]) awaitCleanups(t testing.TB) {
	t.Helper()
	settled := func() error {
		for i := range p.shards {
			s := &p.shards[i]
			dead := int64(0)
			for _, key := range s.keys() {
				s.mu.Lock()
				for w := s.lists[key]; w != nil; w = w.next {
					if r := w.request.Value(); r == nil || r.Done() {
						dead++
					}
				}
				s.mu.Unlock()
			}
			if counted := s.cleared.Load(); counted != dead || s.needsSweep() || s.sweeping.Load() {
				return fmt.Errorf("shard %d counts %d watchers without a request and has %d of %d", i, counted, dead, s.entries.Load())
			}
		}
		return nil
	}
	var err error
	for until := time.Now().Add(time.Minute); time.Now().Before(until); {
		runtime.GC()
		if err = settled(); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := p.check(); err != nil {
		t.Fatal(err)
	}
}

// heap returns the bytes of what is reachable, and the largest number of bytes beside the heap that
// the runtime has ever needed, for weak pointers and cleanups among other things.
func heap() (reachable, beside uint64) {
	var m runtime.MemStats
	for last := uint64(0); ; last = m.HeapAlloc {
		runtime.GC()
		runtime.ReadMemStats(&m)
		if m.HeapAlloc+million/100 >= last && m.HeapAlloc <= last+million/100 {
			return m.HeapAlloc, m.OtherSys + m.GCSys
		}
	}
}
