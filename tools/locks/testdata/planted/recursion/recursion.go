// Package recursion takes a reader's lock twice, which stops both when a writer comes in between.
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
