package latency

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/txmgr/txmgr/txn/admin"
)

// Family is a histogram for each of many names, for example of participants. The zero value is
// empty. It is safe for concurrent use.
type Family struct {
	mu     sync.Mutex // guards byName
	byName map[string]*Histogram
}

// Record counts a duration.
func (f *Family) Record(name string, took time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ofLocked(name).Record(took, 1)
}

// ofLocked returns the histogram of a name; the caller holds mu.
func (f *Family) ofLocked(name string) *Histogram {
	h := f.byName[name]
	if h == nil {
		if f.byName == nil {
			f.byName = make(map[string]*Histogram)
		}
		h = New()
		f.byName[name] = h
	}
	return h
}

// Read returns the durations of the names, and drops those of all others.
func (f *Family) Read(names []string) map[string]admin.DurationHistogram {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make(map[string]admin.DurationHistogram, len(names))
	for _, name := range names {
		out[name] = f.ofLocked(name).Read()
	}
	maps.DeleteFunc(f.byName, func(name string, _ *Histogram) bool { return !slices.Contains(names, name) })
	return out
}
