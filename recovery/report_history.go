package recovery

import (
	"strings"

	"github.com/txmgr/txmgr/recovery/history"
	"github.com/txmgr/txmgr/recovery/plan"
	"github.com/txmgr/txmgr/txn"
)

// History returns what this leader tried for the branches of a transaction: of
// those that are pending, and of those among the finished for which an attempt
// failed or ended in a heuristic outcome, as long as they are among the newest.
func (r *Recovery) History(id txn.ID) map[txn.BranchID]history.History {
	w, _ := r.log.Pending(id)
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.history.Of(id)
	for _, b := range w.Branches {
		for v := plan.Commit; v <= plan.ResolveOutcome; v++ {
			if t := r.attempts[item{plan.Key{TX: id, Branch: b.ID}, v}]; t != nil && t.attemptLog.Len() > 0 {
				all[b.ID] = all[b.ID].Merge(t.attemptLog)
			}
		}
	}
	told := make(map[txn.BranchID]history.History, len(all))
	for b, c := range all {
		told[b] = c.History()
	}
	return told
}

// record makes the record of an attempt; text is its error's.
func (o attemptResult) record(v plan.Action, text string, decided bool) history.Record {
	text = strings.TrimPrefix(text, v.String()+": ")
	x := history.Record{At: o.at.UnixNano(), Took: o.took, Action: v, Result: text, Failed: o.err != nil && !decided}
	switch {
	case o.err == nil:
		x.Result = o.report.Summary()
	case decided:
		x.Result = "given up, because it was decided meanwhile"
	}
	return x
}
