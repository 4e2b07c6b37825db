// Package sound has nothing to report.
package sound

import "sync"

type Counter struct {
	mu sync.Mutex
	n  int
}

func (c *Counter) Add() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return c.n
}
