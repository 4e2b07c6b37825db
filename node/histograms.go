package node

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/txmgr/txmgr/internal/latency"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// measurements are what a node measures of itself.
type measurements struct {
	started    time.Time
	timeoutLag *latency.Histogram
	callTimes  callTimes
	timeoutLog timeoutLogger
}

func newMeasurements() measurements {
	return measurements{started: time.Now(), timeoutLag: latency.New(), timeoutLog: newTimeoutLogger()}
}

// Durations returns what this node has measured since it was opened.
func (n *Node) Durations() admin.DurationHistograms {
	var registered []string
	n.fsm.View(func(m *machine.Machine) {
		for _, p := range m.Participants() {
			if !p.Removed {
				registered = append(registered, p.Name)
			}
		}
	})
	return admin.DurationHistograms{
		TimeoutLag: n.measured.timeoutLag.Read(), Entries: n.proposals.EntryDurations(), Calls: n.measured.callTimes.read(registered),
	}
}

// callTimes holds the durations of calls, by participant. The zero value is empty.
type callTimes struct {
	mu   sync.Mutex // guards took
	took map[string]*latency.Histogram
}

func (c *callTimes) record(participant string, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ofLocked(participant).Record(took, 1)
}

// ofLocked returns a participant's histogram; the caller holds mu.
func (c *callTimes) ofLocked(participant string) *latency.Histogram {
	h := c.took[participant]
	if h == nil {
		if c.took == nil {
			c.took = make(map[string]*latency.Histogram)
		}
		h = latency.New()
		c.took[participant] = h
	}
	return h
}

// read returns the durations of the registered participants, and drops those of the others.
func (c *callTimes) read(registered []string) map[string]admin.DurationHistogram {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[string]admin.DurationHistogram, len(registered))
	for _, name := range registered {
		out[name] = c.ofLocked(name).Read()
	}
	maps.DeleteFunc(c.took, func(name string, _ *latency.Histogram) bool { return !slices.Contains(registered, name) })
	return out
}
