// Package recursion takes a lock twice for reading, which deadlocks when a writer waits in between.
package recursion

import "sync"

type Store struct {
	mu sync.RWMutex
	n  int
}

func (s *Store) Get() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.n
}

func (s *Store) Twice() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return 2 * s.Get()
}
