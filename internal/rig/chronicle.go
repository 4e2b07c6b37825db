package rig

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Chronicle is what was done to the programs under test, and when. The zero Chronicle
// counts its times from the first note, or from [Chronicle.Begin]. It is safe for
// concurrent use.
type Chronicle struct {
	mu    sync.Mutex // guards all below
	start time.Time
	lines []string
	fired map[string]int
	tried map[string]int
	last  map[string]error // why a fault did not strike the last time
}

// Begin makes now the zero of the times.
func (c *Chronicle) Begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.start = time.Now()
}

// Note adds a line.
func (c *Chronicle) Note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noteLocked(format, args...)
}

func (c *Chronicle) noteLocked(format string, args ...any) {
	now := time.Now()
	if c.start.IsZero() {
		c.start = now
	}
	c.lines = append(c.lines, fmt.Sprintf("%s %7.2fs  ", now.Format(time.TimeOnly), now.Sub(c.start).Seconds())+fmt.Sprintf(format, args...))
}

// Struck counts a fault that is over. An error says that it did not strike.
func (c *Chronicle) Struck(name, what string, err error) {
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

// Missing gives those of the faults that never struck, and why.
func (c *Chronicle) Missing(names ...string) (never []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range names {
		if c.fired[name] == 0 {
			never = append(never, fmt.Sprintf("%s (tried %d times: %v)", name, c.tried[name], c.last[name]))
		}
	}
	return never
}

// String gives all lines.
func (c *Chronicle) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.lines, "\n")
}

// Counts says how often each fault has struck.
func (c *Chronicle) Counts() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Sums(c.fired)
}

// Sums writes counts in the order of their names.
func Sums(n map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(n)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, n[name]))
	}
	return strings.Join(parts, ", ")
}
