package recovery

import (
	"slices"
	"strings"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// The limits of what is remembered of attempts.
const (
	trailLimit  = 16      // of one branch
	pastLimit   = 1024    // transactions whose branches are finished
	recordLimit = 1 << 16 // of all that are undone, and again of all that are finished
)

// History is what was tried for one branch.
type History struct {
	Attempts []txn.Attempt // the latest, at most 16, oldest first
	Earlier  int           // how many there were before those
}

// History tells what this leader tried for the branches of a transaction: of
// those that are undone, and of those among the finished for which an attempt
// failed or ended in a hazard, as long as they are among the newest.
func (r *Recovery) History(id txn.ID) map[txn.BranchID]History {
	w, _ := r.log.Undone(id)
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[txn.BranchID]trail)
	for b, c := range r.past.finished[id] {
		all[b] = c.join(trail{})
	}
	for _, b := range w.Branches {
		for v := Commit; v <= Settle; v++ {
			if t := r.tries[item{Key{id, b.ID}, v}]; t != nil && len(t.trail.records) > 0 {
				all[b.ID] = all[b.ID].join(t.trail)
			}
		}
	}
	told := make(map[txn.BranchID]History, len(all))
	for b, c := range all {
		told[b] = c.history()
	}
	return told
}

// record is one attempt, in a form that can be kept by the thousand.
type record struct {
	at     int64 // wall clock, nanoseconds since 1970
	took   time.Duration
	result string
	verb   Verb
	failed bool
}

// trail is what was tried for one branch. The zero trail is empty.
type trail struct {
	records []record // oldest first
	earlier int      // not kept any more
	bad     bool     // an attempt failed, or ended in a hazard
}

// join gives both together; neither is changed.
func (c trail) join(d trail) trail {
	all := slices.Concat(c.records, d.records)
	slices.SortStableFunc(all, func(a, b record) int { return int(min(1, max(-1, a.at-b.at))) })
	sum := trail{records: all, earlier: c.earlier + d.earlier, bad: c.bad || d.bad}
	sum.cut(trailLimit)
	return sum
}

// cut forgets the oldest beyond n.
func (c *trail) cut(n int) {
	if over := len(c.records) - n; over > 0 {
		c.records = slices.Delete(c.records, 0, over)
		c.earlier += over
	}
}

func (c trail) history() History {
	h := History{Earlier: c.earlier}
	for _, x := range c.records {
		h.Attempts = append(h.Attempts, txn.Attempt{
			At: time.Unix(0, x.at), Took: txn.Duration(x.took), Call: x.verb.String(), Result: x.result, Failed: x.failed,
		})
	}
	return h
}

// record makes the record of an attempt; text is its error's.
func (o outcome) record(v Verb, text string, decided bool) record {
	text = strings.TrimPrefix(text, v.String()+": ")
	x := record{at: o.at.UnixNano(), took: o.took, verb: v, result: text, failed: o.err != nil && !decided}
	switch {
	case o.err == nil:
		x.result = o.report.text()
	case decided:
		x.result = "given up, because it was decided meanwhile"
	}
	return x
}

// text says for people what was learnt.
func (rep Report) text() string {
	var s string
	switch {
	case rep.State != 0:
		s = rep.State.String()
	case rep.Vote != 0:
		s = rep.Vote.String()
	default:
		s = "hazard: " + rep.Hazard.String()
	}
	if rep.Detail != "" {
		s += " (" + rep.Detail + ")"
	}
	return s
}

// past remembers what was tried. Guarded by Recovery.mu.
type past struct {
	live     int // records of branches that are undone
	finished map[txn.ID]map[txn.BranchID]trail
	order    fifo[txn.ID]
	kept     int // records of those that are finished
}

// noteLocked adds an attempt at an undone branch. When everything fails at once,
// branches remember their last attempts only.
func (p *past) noteLocked(c *trail, x record) {
	p.live -= len(c.records)
	limit := trailLimit
	if p.live >= recordLimit {
		limit = 1
	}
	if n := len(c.records); n > 0 && c.records[n-1].result == x.result {
		x.result = c.records[n-1].result // keeps one of two equal texts
	}
	c.cut(limit - 1)
	c.records = append(c.records, x)
	c.bad = c.bad || x.failed
	p.live += len(c.records)
}

// retireLocked moves what was tried for a branch to what is finished, if anything
// about it was remarkable.
func (p *past) retireLocked(k Key, c *trail) {
	p.live -= len(c.records)
	if c.bad {
		p.keepLocked(k, *c)
	}
	*c = trail{}
}

func (p *past) keepLocked(k Key, c trail) {
	of := p.finished[k.TX]
	if of == nil {
		of = make(map[txn.BranchID]trail)
		if p.finished == nil {
			p.finished = make(map[txn.ID]map[txn.BranchID]trail)
		}
		p.finished[k.TX] = of
		p.order.push(k.TX)
	}
	p.kept -= len(of[k.Branch].records)
	of[k.Branch] = of[k.Branch].join(c)
	p.kept += len(of[k.Branch].records)
	for p.order.len() > pastLimit || p.kept > recordLimit {
		oldest := p.order.pop()
		for _, c := range p.finished[oldest] {
			p.kept -= len(c.records)
		}
		delete(p.finished, oldest)
	}
}
