package recovery

import (
	"context"
	"fmt"
	"slices"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// job is one branch that a sweep wants to end. It takes its turn in the
// participant's lane behind all that is undone, and is tried once: the next
// sweep finds what is left.
type job struct {
	branch  participant.Branch
	verb    Verb
	finding txn.Finding // belongs to the sweep until it is queued, and when it is over

	ctx  context.Context // the sweep's own
	over chan struct{}
}

// newJob judges one branch. The job's verb is zero when it is to be left.
func newJob(name string, s sighting, k Known) *job {
	j := &job{
		branch: k.Branch,
		verb:   judgeKnown(k),
		finding: txn.Finding{
			Participant: name, XID: s.XID, ID: s.TX, Branch: s.Branch,
			Since: s.Since, Owner: s.Owner, State: k.State, Verdict: verdictLeave,
		},
	}
	switch j.verb {
	case Commit:
		j.finding.Verdict = verdictCommit
	case Rollback:
		j.finding.Verdict = verdictRollback
	}
	// The name seen there is the truth about the branch, whatever the log has.
	j.branch.TX, j.branch.ID, j.branch.XID = s.TX, s.Branch, s.XID
	return j
}

// carryOut runs jobs through the participant's lane and waits for them. When ctx
// ends, those that have not begun are withdrawn.
func (r *Recovery) carryOut(ctx context.Context, name string, jobs []*job) {
	if len(jobs) == 0 {
		return
	}
	now := r.now()
	r.mu.Lock()
	l := r.laneLocked(name)
	for _, j := range jobs {
		j.ctx, j.over = ctx, make(chan struct{})
	}
	l.jobs = append(l.jobs, jobs...)
	r.activateLocked(l)
	r.dispatchLocked(now)
	r.wake()
	r.mu.Unlock()

	for _, j := range jobs {
		select {
		case <-j.over:
		case <-ctx.Done():
			r.withdraw(l, ctx)
			<-j.over
		}
	}
}

// withdraw takes back the jobs of a sweep that have not begun.
func (r *Recovery) withdraw(l *lane, sweep context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.jobs = slices.DeleteFunc(l.jobs, func(j *job) bool {
		if j.ctx != sweep {
			return false
		}
		j.notTried(l)
		close(j.over)
		return true
	})
	r.restLocked(l)
}

func (j *job) notTried(l *lane) {
	j.finding.Error = "not tried: the sweep ended first"
	if l.lastErr != "" {
		j.finding.Error += "; the participant's last error: " + l.lastErr
	}
}

// runJob makes the one attempt, on a worker.
func (r *Recovery) runJob(l *lane, j *job, probe bool) {
	defer r.wg.Done()
	ctx, cancel := context.WithTimeout(j.ctx, r.cfg.CallTimeout)
	defer cancel()
	rep, tried, err := r.tryJob(ctx, l.name, j)

	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	defer close(j.over)
	r.inPool--
	l.running--
	switch {
	case err == nil:
		l.br.success()
		l.lastErr = ""
	case j.ctx.Err() != nil:
		l.br.release(probe)
	default:
		r.blameLocked(l, err, now, probe)
	}
	switch {
	case !tried:
		j.notTried(l)
	case err != nil:
		j.finding.Error = plain(err.Error())
	case rep.Hazard != 0:
		j.finding.Error = plain(fmt.Sprintf("ended otherwise: %v (%s)", rep.Hazard, rep.Detail))
		if j.finding.State != 0 {
			r.addReportLocked(j.branch.TX, entry{Report: rep})
		}
	default:
		j.finding.Done = true
	}
	r.dispatchLocked(now)
}

func (r *Recovery) tryJob(ctx context.Context, name string, j *job) (rep Report, tried bool, err error) {
	if err := ctx.Err(); err != nil {
		return Report{}, false, err
	}
	p, err := r.log.Participant(ctx, name)
	if err == nil {
		rep, err = call(ctx, p, j.branch, j.verb)
	}
	return rep, true, r.late(ctx, err)
}
