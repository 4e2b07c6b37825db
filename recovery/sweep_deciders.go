package recovery

import (
	"context"

	"github.com/txmgr/txmgr/recovery/plan"
	"github.com/txmgr/txmgr/recovery/scan"
)

// readDeciders has appointed branches asked whether they have committed, in the lanes of their participants, and each once at a
// time. A commit that is proved is reported, and is then the decision; any other answer changes nothing. So the log need not be
// read again, nor pruning be held off. The sweep that calls it does not wait: a participant that hangs must not delay another one.
func (r *Recovery) readDeciders(deciders []plan.Branch) {
	tasks := make(map[string][]*sweepTask)
	for _, d := range deciders {
		if _, asked := r.visits.reading.LoadOrStore(d.TX, nil); !asked {
			tasks[d.Participant] = append(tasks[d.Participant], &sweepTask{Orphan: scan.Orphan{Branch: d.Branch, Action: plan.ReadOutcome}})
		}
	}
	for name, ofOne := range tasks {
		r.life.wg.Go(func() {
			ctx, cancel := context.WithTimeout(r.life.ctx, r.cfg.CallTimeout)
			defer cancel()
			r.runSweepTasks(ctx, name, ofOne)
			for _, j := range ofOne {
				r.visits.reading.Delete(j.Branch.TX)
			}
		})
	}
}
