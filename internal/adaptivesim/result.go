package adaptivesim

import (
	"fmt"
	"strings"
	"time"

	"github.com/txmgr/txmgr/adaptive"
)

// settling is the time that an optimizer has after a change of the load, in the
// scores that leave the transition out.
const settling = 30 * time.Second

// tasks are those that ended in some time, with how long they had been there.
type tasks struct {
	Count   uint64
	Sojourn adaptive.Histogram
}

func (t *tasks) add(sojourn time.Duration) {
	t.Count++
	t.Sojourn.Record(sojourn)
}

// PhaseResult is the result of one phase.
type PhaseResult struct {
	Start, Length time.Duration
	// All ended in the phase, Settled ended half a minute after its beginning or later.
	All, Settled tasks
	// Limit is the time average of the limit.
	Limit float64

	early   tasks   // ended in the first half-minute
	settled float64 // moment at which the half-minute ends
	counted float64 // moment up to which the limit is in the integral
	limit   float64 // the integral
}

func (p *PhaseResult) begin(now float64, length time.Duration) {
	p.Start, p.Length = duration(now), length
	p.settled = now + settling.Seconds()
	p.counted = now
}

func (p *PhaseResult) countLimit(now float64, limit int) {
	p.limit += float64(limit) * (now - p.counted)
	p.counted = now
	p.Limit = p.limit / max(now-p.Start.Seconds(), time.Nanosecond.Seconds())
}

func (p *PhaseResult) finished(now, arrived float64) {
	sojourn := duration(now - arrived)
	if now < p.settled {
		p.early.add(sojourn)
	} else {
		p.Settled.add(sojourn)
	}
}

// end sums up the parts of the phase.
func (p *PhaseResult) end(now float64, limit int) {
	p.countLimit(now, limit)
	for _, part := range []*tasks{&p.early, &p.Settled} {
		p.All.Count += part.Count
		p.All.Sojourn.Add(&part.Sojourn)
	}
}

// Decision is a decision of an optimizer that changed the limit or gave a reason.
type Decision struct {
	At       time.Duration
	Phase    int
	From, To int
	Why      string
}

// Result is the result of a run.
type Result struct {
	Scenario  *Scenario
	Limit     int // the first
	Phases    []PhaseResult
	Decisions []Decision
	Samples   []Sample // see Scenario.Sample

	// Left were never finished; LeftFor is the sum of the times for which they
	// had been present at the end.
	Left    int
	LeftFor time.Duration
}

func newResult(s *Scenario, limit int) *Result {
	return &Result{Scenario: s, Limit: limit, Phases: make([]PhaseResult, len(s.Phases))}
}

// countLeft counts, at the end, the tasks that still wait. The few that run are left out.
func (s *simulation) countLeft() {
	s.result.Left = s.queue.count
	s.queue.each(func(a arrival) { s.result.LeftFor += duration(s.now - a.at) })
}

// MeanWait is the mean time for which a task was present, including those that still are:
// an optimizer does not look better for leaving them.
func (r *Result) MeanWait() time.Duration {
	total, count := r.LeftFor, uint64(r.Left)
	for i := range r.Phases {
		total += r.Phases[i].All.Sojourn.Sum()
		count += r.Phases[i].All.Count
	}
	if count == 0 {
		return 0
	}
	return total / time.Duration(count)
}

// Resizes are the decisions that changed the limit.
func (r *Result) Resizes() []Decision {
	var all []Decision
	for _, d := range r.Decisions {
		if d.From != d.To {
			all = append(all, d)
		}
	}
	return all
}

// Summary lists the last decisions of the optimizer, with their reasons.
func (r *Result) Summary(last int) string {
	var s strings.Builder
	fmt.Fprintf(&s, "%9s  begins with %d\n", "0s", r.Limit)
	ds := r.Decisions
	if over := len(ds) - last; over > 0 {
		fmt.Fprintf(&s, "%9s  %d decisions\n", "...", over)
		ds = ds[over:]
	}
	for _, d := range ds {
		fmt.Fprintf(&s, "%9v  phase %d  %4d -> %-4d %s\n", d.At.Round(100*time.Millisecond), d.Phase+1, d.From, d.To, d.Why)
	}
	return s.String()
}
