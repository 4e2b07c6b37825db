package bank

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// chronicle is what was done to everybody, and when.
type chronicle struct {
	mu    sync.Mutex // guards all below
	start time.Time
	lines []string
	fired map[string]int
	tried map[string]int
	last  map[string]error // why a fault did not strike the last time
}

func (c *chronicle) note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noteLocked(format, args...)
}

func (c *chronicle) noteLocked(format string, args ...any) {
	c.lines = append(c.lines, fmt.Sprintf("%7.2fs  ", time.Since(c.start).Seconds())+fmt.Sprintf(format, args...))
}

// struck counts a fault that is over.
func (c *chronicle) struck(name, what string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fired == nil {
		c.fired, c.tried, c.last = map[string]int{}, map[string]int{}, map[string]error{}
	}
	c.tried[name]++
	if c.last[name] = err; err != nil {
		c.noteLocked("%s did not strike: %v", name, err)
		return
	}
	c.fired[name]++
	c.noteLocked("%s is over: %s", name, what)
}

// never reports whether a fault has not struck.
func (c *chronicle) never(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fired[name] == 0
}

// missing gives the faults that never struck, and why.
func (c *chronicle) missing(names []string) (never []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range names {
		if c.fired[name] == 0 {
			never = append(never, fmt.Sprintf("%s (tried %d times: %v)", name, c.tried[name], c.last[name]))
		}
	}
	return never
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
