package adaptive

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Stats are the statistics of a pool.
type Stats struct {
	// Limit is how many tasks may run at once, Running how many do, Waiting how many
	// wait: in the queue, for a place in it, or in the task source.
	Limit, Running, Waiting int

	// Arrived counts the tasks that were ever accepted, Completed those that ended,
	// except those that TimedOut. Of the completed, Failed returned an error, and Panicked
	// panicked.
	Arrived, Completed, Failed, Panicked, TimedOut uint64

	// Throughput is the number of tasks completed per second, Mean and P99 their times
	// from submission, or, from a task source, from when they were ready, to end: in whole
	// windows of the last 10 to 20 seconds; 0 before the first.
	Throughput float64
	Mean, P99  time.Duration

	// Last is the last decision, the zero value before the first.
	Last DecisionRecord
}

// DecisionRecord is a decision of the optimizer, or a manual change, and its reason.
type DecisionRecord struct {
	// At is when it was made.
	At time.Time
	// From is the limit before, To after.
	From, To int
	// Why is the reason, for the operator.
	Why string

	// The window before the decision; all 0 when the limit was set manually. Rate is the
	// number of tasks completed per second, Busy the mean number of workers with a
	// task, Bound the part of the time, from 0 to 1, for which the limit was binding,
	// Mean and P99 are times as in [Stats], QueueLen is how many tasks waited.
	Rate, Busy, Bound float64
	Mean, P99         time.Duration
	QueueLen          int
}

// Stats returns the pool's statistics, without stopping it.
func (p *Pool) Stats() Stats {
	var s Stats
	s.Throughput, s.Mean, s.P99 = p.recent.read()
	p.mu.Lock()
	defer p.mu.Unlock()
	m := &p.counters
	s.Limit, s.Running, s.Waiting = p.limit, p.busyLocked(), p.waitingLocked()
	s.Arrived, s.Completed, s.Failed, s.Panicked, s.TimedOut = m.arrived, m.completed, m.failed, m.panicked, m.timedOut
	s.Last = p.decisions.last()
	return s
}

// Limit is how many tasks may run at once.
func (p *Pool) Limit() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limit
}

// Decisions returns the latest decisions, at most 256, oldest first.
func (p *Pool) Decisions() []DecisionRecord {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.decisions.all()
}

// decisionRing holds the latest decisions.
type decisionRing struct {
	kept []DecisionRecord
	next int // next to be overwritten, when it is full
}

const ringSize = 256

func (r *decisionRing) add(d DecisionRecord) {
	if len(r.kept) < ringSize {
		r.kept = append(r.kept, d)
		return
	}
	r.kept[r.next] = d
	r.next = (r.next + 1) % ringSize
}

func (r *decisionRing) all() []DecisionRecord {
	all := make([]DecisionRecord, 0, len(r.kept))
	return append(append(all, r.kept[r.next:]...), r.kept[:r.next]...)
}

func (r *decisionRing) last() DecisionRecord {
	if len(r.kept) == 0 {
		return DecisionRecord{}
	}
	return r.kept[(r.next+len(r.kept)-1)%len(r.kept)]
}

// recent has the windows of the last 10 to 20 seconds, in two halves, of which the older is
// dropped when the newer is long enough.
type recent struct {
	mu          sync.Mutex // guards what follows
	now, before span
}

// span is a sum of windows. Its histogram is packed: it is added to seldom, and kept
// for long.
type span struct {
	completed uint64
	length    time.Duration
	sum       time.Duration
	sojourn   *hdrhistogram.PackedHistogram
}

func newSpan() span {
	return span{sojourn: hdrhistogram.NewPacked(int64(finest), int64(longest), significant)}
}

const spanLength = 10 * time.Second

func (r *recent) add(w *Window) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now.length >= spanLength {
		r.before, r.now = r.now, span{sojourn: r.before.sojourn}
		r.now.sojourn.Reset()
	}
	r.now.completed += w.Completed
	r.now.length += w.Length()
	if w.Sojourn.Count() > 0 {
		r.now.sum += w.Sojourn.Sum()
		r.now.sojourn.MergeFrom(w.Sojourn.hdr)
	}
}

func (r *recent) read() (throughput float64, mean, p99 time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.now.sojourn.Clone()
	all.Merge(r.before.sojourn)
	completed, length := r.now.completed+r.before.completed, r.now.length+r.before.length
	if n := all.TotalCount(); n > 0 {
		mean = (r.now.sum + r.before.sum) / time.Duration(n)
	}
	return ratio(float64(completed), length.Seconds()), mean, time.Duration(all.ValueAtPercentile(99))
}
