package proposal

import (
	"sync/atomic"
	"time"

	"github.com/txmgr/txmgr/internal/latency"
	"github.com/txmgr/txmgr/txn/admin"
)

// counters are what a queue records about itself.
type counters struct {
	pending        atomic.Int64       // proposals without an answer
	completed      atomic.Uint64      // entries whose callers have been answered
	entryDurations *latency.Histogram // from the proposal until the entry was applied

	commands, entries, tickEntries, bytes atomic.Uint64

	start     time.Time
	lastEntry atomic.Int64 // nanoseconds since start
}

// Stats are what a queue has proposed since it was made.
type Stats struct {
	Commands, Bytes, Entries uint64
	TickEntries              uint64 // those without a command, which carry the tick
}

// Stats returns the counts.
func (b *Queue) Stats() Stats {
	return Stats{Commands: b.stats.commands.Load(), Bytes: b.stats.bytes.Load(), Entries: b.stats.entries.Load(), TickEntries: b.stats.tickEntries.Load()}
}

// Progress returns how many entries are complete, and whether callers wait for another.
func (b *Queue) Progress() (completed uint64, waiting bool) {
	return b.stats.completed.Load(), b.stats.pending.Load() > 0
}

// EntryDurations returns how long entries took, from the proposal until they were applied.
func (b *Queue) EntryDurations() admin.DurationHistogram { return b.stats.entryDurations.Read() }

func (b *Queue) count(l *batch) {
	b.stats.commands.Add(uint64(l.commands))
	b.stats.entries.Add(1)
	b.stats.bytes.Add(uint64(len(l.buf)))
	if l.commands == 0 {
		b.stats.tickEntries.Add(1)
	}
	b.stats.lastEntry.Store(int64(time.Since(b.stats.start)))
}

// SinceLastEntry is the time since this node last proposed an entry.
func (b *Queue) SinceLastEntry() time.Duration {
	return time.Since(b.stats.start) - time.Duration(b.stats.lastEntry.Load())
}
