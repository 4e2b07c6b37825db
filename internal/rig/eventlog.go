package rig

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// EventLog is a log of what was done to the programs under test, and when. The zero EventLog counts
// its times from the first note, or from [EventLog.Begin]. It is safe for concurrent use.
type EventLog struct {
	mu       sync.Mutex // guards all below
	start    time.Time
	lines    []string
	injected map[string]int
	tried    map[string]int
	last     map[string]error // why a fault was not injected at its last attempt
}

// Begin sets the zero of the times to now.
func (c *EventLog) Begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.start = time.Now()
}

// Note adds a line.
func (c *EventLog) Note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noteLocked(format, args...)
}

func (c *EventLog) noteLocked(format string, args ...any) {
	now := time.Now()
	if c.start.IsZero() {
		c.start = now
	}
	c.lines = append(c.lines, fmt.Sprintf("%s %7.2fs  ", now.Format(time.TimeOnly), now.Sub(c.start).Seconds())+fmt.Sprintf(format, args...))
}

// FaultInjected counts a fault that has ended. An error means that it was not injected.
func (c *EventLog) FaultInjected(name, what string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.injected == nil {
		c.injected, c.tried, c.last = map[string]int{}, map[string]int{}, map[string]error{}
	}
	c.tried[name]++
	if c.last[name] = err; err != nil {
		c.noteLocked("%s did not strike: %v", name, err)
		return
	}
	c.injected[name]++
	c.noteLocked("%s is over: %s", name, what)
}

// NeverInjected returns those of the faults that were never injected, and why.
func (c *EventLog) NeverInjected(names ...string) (never []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range names {
		if c.injected[name] == 0 {
			never = append(never, fmt.Sprintf("%s (tried %d times: %v)", name, c.tried[name], c.last[name]))
		}
	}
	return never
}

// String returns all lines.
func (c *EventLog) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.lines, "\n")
}

// Counts lists how often each fault was injected.
func (c *EventLog) Counts() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return FormatCounts(c.injected)
}

// FormatCounts formats counts in the order of their names.
func FormatCounts(n map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(n)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, n[name]))
	}
	return strings.Join(parts, ", ")
}
