package history

import (
	"slices"
	"time"

	"github.com/txmgr/txmgr/recovery/plan"
	"github.com/txmgr/txmgr/recovery/queue"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// The limits of the history of attempts.
const (
	attemptLogLimit = 16      // of one branch
	historyLimit    = 1024    // transactions whose branches are finished
	recordLimit     = 1 << 16 // of all branches that are pending, and again of all that are finished
)

// History is the attempts at one branch, as they are shown.
type History struct {
	Attempts []admin.CallAttempt // the latest, at most 16, oldest first
	Earlier  int                 // how many there were before those
}

// Record is one attempt, in a compact form.
type Record struct {
	At     int64 // wall clock, nanoseconds since 1970
	Took   time.Duration
	Result string
	Action plan.Action
	Failed bool
}

// Attempts is the attempts at one branch. The zero Attempts is empty.
type Attempts struct {
	records   []Record // oldest first
	earlier   int      // not kept any more
	anyFailed bool     // an attempt failed, or ended in a heuristic outcome
}

// NewAttempts is one attempt, worth keeping.
func NewAttempts(x Record) Attempts {
	return Attempts{records: []Record{x}, anyFailed: true}
}

// Retain makes the attempts worth keeping after the end of the branch.
func (c *Attempts) Retain() { c.anyFailed = true }

// Len is how many attempts are kept.
func (c *Attempts) Len() int { return len(c.records) }

// Merge returns the attempts of both; neither is changed.
func (c Attempts) Merge(d Attempts) Attempts {
	all := slices.Concat(c.records, d.records)
	slices.SortStableFunc(all, func(a, b Record) int { return int(min(1, max(-1, a.At-b.At))) })
	sum := Attempts{records: all, earlier: c.earlier + d.earlier, anyFailed: c.anyFailed || d.anyFailed}
	sum.truncate(attemptLogLimit)
	return sum
}

// truncate forgets the oldest beyond n.
func (c *Attempts) truncate(n int) {
	if over := len(c.records) - n; over > 0 {
		c.records = slices.Delete(c.records, 0, over)
		c.earlier += over
	}
}

// History returns the attempts as they are shown.
func (c Attempts) History() History {
	h := History{Earlier: c.earlier}
	for _, x := range c.records {
		h.Attempts = append(h.Attempts, admin.CallAttempt{
			At: time.Unix(0, x.At), Took: txn.Duration(x.Took), Call: x.Action.String(), Result: x.Result, Failed: x.Failed,
		})
	}
	return h
}

// Archive holds the attempts of all finished branches, and counts those of the pending ones.
// The zero Archive is empty. Guarded by the owner's lock.
type Archive struct {
	liveRecords     int // records of branches that are pending
	finished        map[txn.ID]map[txn.BranchID]Attempts
	order           queue.FIFO[txn.ID]
	finishedRecords int // records of branches that are finished
}

// Add adds an attempt at a pending branch. When the history is full, because
// everything fails at once, branches keep their last attempts only.
func (p *Archive) Add(c *Attempts, x Record) {
	p.liveRecords -= len(c.records)
	limit := attemptLogLimit
	if p.liveRecords >= recordLimit {
		limit = 1
	}
	if n := len(c.records); n > 0 && c.records[n-1].Result == x.Result {
		x.Result = c.records[n-1].Result // keeps one of two equal texts
	}
	c.truncate(limit - 1)
	c.records = append(c.records, x)
	c.anyFailed = c.anyFailed || x.Failed
	p.liveRecords += len(c.records)
}

// Finish moves the attempts at a branch to those of the finished ones, if any of
// them is worth keeping.
func (p *Archive) Finish(k plan.Key, c *Attempts) {
	p.liveRecords -= len(c.records)
	if c.anyFailed {
		p.Retain(k, *c)
	}
	*c = Attempts{}
}

// Retain adds attempts to those of the finished branches.
func (p *Archive) Retain(k plan.Key, c Attempts) {
	of := p.finished[k.TX]
	if of == nil {
		of = make(map[txn.BranchID]Attempts)
		if p.finished == nil {
			p.finished = make(map[txn.ID]map[txn.BranchID]Attempts)
		}
		p.finished[k.TX] = of
		p.order.Push(k.TX)
	}
	p.finishedRecords -= len(of[k.Branch].records)
	of[k.Branch] = of[k.Branch].Merge(c)
	p.finishedRecords += len(of[k.Branch].records)
	for p.order.Len() > historyLimit || p.finishedRecords > recordLimit {
		oldest := p.order.Pop()
		for _, c := range p.finished[oldest] {
			p.finishedRecords -= len(c.records)
		}
		delete(p.finished, oldest)
	}
}

// Of returns the attempts at the branches of a finished transaction.
func (p *Archive) Of(id txn.ID) map[txn.BranchID]Attempts {
	all := make(map[txn.BranchID]Attempts)
	for b, c := range p.finished[id] {
		all[b] = c.Merge(Attempts{})
	}
	return all
}

// Records is how many records are held of branches that are pending, and of those that are
// finished.
func (p *Archive) Records() (live, finished int) { return p.liveRecords, p.finishedRecords }
