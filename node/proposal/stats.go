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
func (q *Queue) Stats() Stats {
	return Stats{Commands: q.stats.commands.Load(), Bytes: q.stats.bytes.Load(), Entries: q.stats.entries.Load(), TickEntries: q.stats.tickEntries.Load()}
}

// Progress returns how many entries are complete, and whether callers wait for another.
func (q *Queue) Progress() (completed uint64, waiting bool) {
	return q.stats.completed.Load(), q.stats.pending.Load() > 0
}

// EntryDurations returns how long entries took, from the proposal until they were applied.
func (q *Queue) EntryDurations() admin.DurationHistogram { return q.stats.entryDurations.Read() }

func (q *Queue) count(b *batch) {
	q.stats.commands.Add(uint64(b.commands))
	q.stats.entries.Add(1)
	q.stats.bytes.Add(uint64(len(b.buf)))
	if b.commands == 0 {
		q.stats.tickEntries.Add(1)
	}
	q.stats.lastEntry.Store(int64(time.Since(q.stats.start)))
}

// SinceLastEntry is the time since this node last proposed an entry.
func (q *Queue) SinceLastEntry() time.Duration {
	return time.Since(q.stats.start) - time.Duration(q.stats.lastEntry.Load())
}
