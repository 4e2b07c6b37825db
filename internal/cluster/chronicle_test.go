package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// chronicle is what was done to everybody, and when.
type chronicle struct {
	start time.Time

	mu    sync.Mutex // guards all below
	lines []string
	fired map[string]int
	last  map[string]error // why a fault did not strike the last time
}

func newChronicle() *chronicle {
	return &chronicle{start: time.Now(), fired: map[string]int{}, last: map[string]error{}}
}

func (c *chronicle) note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, fmt.Sprintf("%s %7.2fs  ", time.Now().Format(time.TimeOnly), time.Since(c.start).Seconds())+fmt.Sprintf(format, args...))
}

// struck counts a fault that is over.
func (c *chronicle) struck(name, what string, err error) {
	if err != nil {
		c.note("%s did not strike: %v", name, err)
	} else {
		c.note("%s is over: %s", name, what)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last[name] = err; err == nil {
		c.fired[name]++
	}
}

// never reports whether a fault has not struck, and why.
func (c *chronicle) never(name string) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fired[name] == 0, c.last[name]
}

func (c *chronicle) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.lines, "\n")
}

func (c *chronicle) counts() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return sums(c.fired)
}

// sums writes counts in the order of their names.
func sums(n map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(n)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, n[name]))
	}
	return strings.Join(parts, ", ")
}
