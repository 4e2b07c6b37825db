package recovery

import (
	"slices"
	"strings"
	"time"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// The limits of the history of attempts.
const (
	attemptLogLimit = 16      // of one branch
	historyLimit    = 1024    // transactions whose branches are finished
	recordLimit     = 1 << 16 // of all branches that are pending, and again of all that are finished
)

// History is the attempts at one branch.
type History struct {
	Attempts []admin.CallAttempt // the latest, at most 16, oldest first
	Earlier  int                 // how many there were before those
}

// History returns what this leader tried for the branches of a transaction: of
// those that are pending, and of those among the finished for which an attempt
// failed or ended in a heuristic outcome, as long as they are among the newest.
func (r *Recovery) History(id txn.ID) map[txn.BranchID]History {
	w, _ := r.log.Pending(id)
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[txn.BranchID]attemptLog)
	for b, c := range r.history.finished[id] {
		all[b] = c.merge(attemptLog{})
	}
	for _, b := range w.Branches {
		for v := Commit; v <= ResolveOutcome; v++ {
			if t := r.attempts[item{Key{id, b.ID}, v}]; t != nil && len(t.attemptLog.records) > 0 {
				all[b.ID] = all[b.ID].merge(t.attemptLog)
			}
		}
	}
	told := make(map[txn.BranchID]History, len(all))
	for b, c := range all {
		told[b] = c.history()
	}
	return told
}

// attemptRecord is one attempt, in a compact form.
type attemptRecord struct {
	at     int64 // wall clock, nanoseconds since 1970
	took   time.Duration
	result string
	action Action
	failed bool
}

// attemptLog is the attempts at one branch. The zero attemptLog is empty.
type attemptLog struct {
	records   []attemptRecord // oldest first
	earlier   int             // not kept any more
	anyFailed bool            // an attempt failed, or ended in a heuristic outcome
}

// merge returns the attempts of both; neither is changed.
func (c attemptLog) merge(d attemptLog) attemptLog {
	all := slices.Concat(c.records, d.records)
	slices.SortStableFunc(all, func(a, b attemptRecord) int { return int(min(1, max(-1, a.at-b.at))) })
	sum := attemptLog{records: all, earlier: c.earlier + d.earlier, anyFailed: c.anyFailed || d.anyFailed}
	sum.truncate(attemptLogLimit)
	return sum
}

// truncate forgets the oldest beyond n.
func (c *attemptLog) truncate(n int) {
	if over := len(c.records) - n; over > 0 {
		c.records = slices.Delete(c.records, 0, over)
		c.earlier += over
	}
}

func (c attemptLog) history() History {
	h := History{Earlier: c.earlier}
	for _, x := range c.records {
		h.Attempts = append(h.Attempts, admin.CallAttempt{
			At: time.Unix(0, x.at), Took: txn.Duration(x.took), Call: x.action.String(), Result: x.result, Failed: x.failed,
		})
	}
	return h
}

// record makes the record of an attempt; text is its error's.
func (o attemptResult) record(v Action, text string, decided bool) attemptRecord {
	text = strings.TrimPrefix(text, v.String()+": ")
	x := attemptRecord{at: o.at.UnixNano(), took: o.took, action: v, result: text, failed: o.err != nil && !decided}
	switch {
	case o.err == nil:
		x.result = o.report.summary()
	case decided:
		x.result = "given up, because it was decided meanwhile"
	}
	return x
}

// summary describes the result for the operator.
func (rep BranchResult) summary() string {
	var s string
	switch {
	case rep.State != 0:
		s = rep.State.String()
	case rep.Vote != 0:
		s = rep.Vote.String()
	default:
		s = "heuristic: " + rep.Heuristic.String()
	}
	if rep.Detail != "" {
		s += " (" + rep.Detail + ")"
	}
	return s
}

// attemptHistory holds the attempts of all branches. Guarded by Recovery.mu.
type attemptHistory struct {
	liveRecords     int // records of branches that are pending
	finished        map[txn.ID]map[txn.BranchID]attemptLog
	order           fifo[txn.ID]
	finishedRecords int // records of branches that are finished
}

// addLocked adds an attempt at a pending branch. When the history is full, because
// everything fails at once, branches keep their last attempts only.
func (p *attemptHistory) addLocked(c *attemptLog, x attemptRecord) {
	p.liveRecords -= len(c.records)
	limit := attemptLogLimit
	if p.liveRecords >= recordLimit {
		limit = 1
	}
	if n := len(c.records); n > 0 && c.records[n-1].result == x.result {
		x.result = c.records[n-1].result // keeps one of two equal texts
	}
	c.truncate(limit - 1)
	c.records = append(c.records, x)
	c.anyFailed = c.anyFailed || x.failed
	p.liveRecords += len(c.records)
}

// archiveLocked moves the attempts at a branch to those of the finished ones, if any of
// them is worth keeping.
func (p *attemptHistory) archiveLocked(k Key, c *attemptLog) {
	p.liveRecords -= len(c.records)
	if c.anyFailed {
		p.retainLocked(k, *c)
	}
	*c = attemptLog{}
}

func (p *attemptHistory) retainLocked(k Key, c attemptLog) {
	of := p.finished[k.TX]
	if of == nil {
		of = make(map[txn.BranchID]attemptLog)
		if p.finished == nil {
			p.finished = make(map[txn.ID]map[txn.BranchID]attemptLog)
		}
		p.finished[k.TX] = of
		p.order.push(k.TX)
	}
	p.finishedRecords -= len(of[k.Branch].records)
	of[k.Branch] = of[k.Branch].merge(c)
	p.finishedRecords += len(of[k.Branch].records)
	for p.order.len() > historyLimit || p.finishedRecords > recordLimit {
		oldest := p.order.pop()
		for _, c := range p.finished[oldest] {
			p.finishedRecords -= len(c.records)
		}
		delete(p.finished, oldest)
	}
}
