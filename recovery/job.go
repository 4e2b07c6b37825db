package recovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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

	ctx    context.Context // the sweep's own
	queued time.Duration   // when; on recovery's scale
	over   chan struct{}
}

// newJob judges one branch. The job's verb is zero when it is to be left.
func newJob(name string, s sighting, k Known) *job {
	j := &job{
		branch: k.Branch,
		verb:   judgeKnown(k, age(s.Prepared), time.Since(s.TX.Made())),
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
	switch lost := time.Since(s.TX.Made()) < k.Memory; {
	case k.State == 0 && j.verb == 0 && lost:
		j.finding.Error = fmt.Sprintf("begun within the time that the log remembers (%v), and the log does not know it: it was restored from an old copy, "+
			"or another coordinator has its cluster's name; compare with the other participants, and end it there by hand", k.Memory)
	case k.State == 0 && j.verb == 0:
		j.finding.Error = fmt.Sprintf("prepared for longer than the log remembers (%v): it may have been decided to commit, "+
			"and forgotten; compare with the other participants, and end it there by hand", k.Memory)
	}
	// The name seen there is the truth about the branch, whatever the log has.
	j.branch.TX, j.branch.ID, j.branch.XID = s.TX, s.Branch, s.XID
	return j
}

// age is how long a branch may have been prepared at most; zero when the
// participant says nothing of it. An age that is too low would have a branch rolled
// back whose commit may be forgotten, so a difference between the participant's
// clock and this one is added where both are needed.
func age(p participant.Prepared) time.Duration {
	switch {
	case p.Age > 0:
		return p.Age
	case p.Since.IsZero():
		return 0
	}
	return time.Since(p.Since) + ClockSlack
}

// ClockSlack is by how much two clocks may differ that have to be compared: the
// coordinator's, a participant's, and those of whoever makes ids.
const ClockSlack = time.Minute

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
		j.ctx, j.queued, j.over = ctx, now, make(chan struct{})
	}
	l.jobs = append(l.jobs, jobs...)
	r.touchLocked(l)
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
	r.touchLocked(l)
	r.dispatchLocked(r.now())
}

func (j *job) notTried(l *lane) {
	j.finding.Error = "not tried: the sweep ended first"
	if l.lastErr != "" {
		j.finding.Error += "; the participant's last error: " + l.lastErr
	}
}

// runJob makes the one attempt, on a worker, and gives what the pool is to learn.
func (r *Recovery) runJob(l *lane, j *job, probe bool) error {
	ctx, cancel := context.WithTimeout(j.ctx, r.cfg.CallTimeout)
	defer cancel()
	a := outcome{at: time.Now(), stale: ctx.Err() != nil}
	if !a.stale {
		a.report, a.err = r.tryJob(ctx, l.name, j)
	}
	a.took = time.Since(a.at)

	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	defer close(j.over)
	r.endLocked(l)
	text := l.text(a.err)
	doubt := errors.As(a.err, new(*doubtError))
	switch {
	case a.err == nil && !a.stale, doubt:
		l.praiseLocked()
	case j.ctx.Err() != nil:
		l.br.release(probe)
	default:
		r.blameLocked(l, text, now, probe)
	}
	switch {
	case a.stale:
		j.notTried(l)
	case doubt:
		j.finding.Verdict, j.finding.Error = verdictLeave, text
	case a.err != nil:
		j.finding.Error = text
		r.noteJobLocked(j, a, text)
	case a.report.Hazard != 0:
		j.finding.Error = plain(fmt.Sprintf("ended otherwise: %v (%s)", a.report.Hazard, a.report.Detail))
		r.noteJobLocked(j, a, text)
		if j.finding.State != 0 {
			r.addReportLocked(j.branch.TX, entry{Report: a.report})
		}
	default:
		j.finding.Done = true
	}
	r.dispatchLocked(now)
	return a.lesson(a.stale)
}

// noteJobLocked remembers an attempt that did not end the branch as wanted; mu is
// held.
func (r *Recovery) noteJobLocked(j *job, a outcome, text string) {
	c := trail{records: []record{a.record(j.verb, text, false)}, bad: true}
	r.past.keepLocked(Key{j.branch.TX, j.branch.ID}, c)
}

func (r *Recovery) tryJob(ctx context.Context, name string, j *job) (Report, error) {
	p, err := r.log.Participant(ctx, name)
	if err == nil && j.finding.State == 0 {
		err = doubted(ctx, p, j.branch)
	}
	var rep Report
	if err == nil {
		rep, err = call(ctx, p, j.branch, j.verb)
	}
	return rep, overdue(ctx, r.cfg.CallTimeout, err)
}

// doubtError says why a branch of a transaction that the log does not know is not
// rolled back.
type doubtError struct{ proof string }

func (e *doubtError) Error() string {
	return "prepared, although there is proof that it was committed once (" + e.proof +
		"): compare with the other participants, and end it there by hand"
}

// doubted asks the participant for proof that a branch was committed once, which
// would forbid to roll it back. No answer forbids it as well, until the next sweep.
func doubted(ctx context.Context, p participant.Participant, b participant.Branch) (err error) {
	witness, ok := p.(participant.Inspector)
	if !ok {
		return nil
	}
	defer unpanic(&err)
	said, err := witness.Inspect(ctx, b)
	switch {
	case err != nil:
		return fmt.Errorf("ask for proof of its end before rolling it back: %w", err)
	case said.Ending == participant.Committed:
		return &doubtError{plain(said.Detail)}
	}
	return nil
}
