package recovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn/admin"
)

// sweepTask is one branch that a sweep wants to end. It is queued in the
// participant's lane with less weight than pending work, and is tried once: the next
// sweep finds what is left.
type sweepTask struct {
	branch participant.Branch
	action Action
	result admin.ScanResult // belongs to the sweep until it is queued, and after it is done

	ctx    context.Context // the sweep's own
	queued time.Duration   // when; on recovery's scale
	done   chan struct{}
}

// newSweepTask classifies one branch. The task's action is zero when it is to be left.
func newSweepTask(name string, s preparedBranch, k BranchStatus) *sweepTask {
	j := &sweepTask{
		branch: k.Branch,
		action: orphanAction(k, age(s.Prepared), time.Since(s.TX.Time())),
		result: admin.ScanResult{
			Participant: name, XID: s.XID, ID: s.TX, Branch: s.Branch,
			Since: s.Since, Owner: s.Owner, State: k.State, Class: classLeave,
		},
	}
	switch j.action {
	case Commit:
		j.result.Class = classCommit
	case Rollback:
		j.result.Class = classRollback
	}
	switch lost := time.Since(s.TX.Time()) < k.RetentionHorizon; {
	case k.State == 0 && j.action == 0 && lost:
		j.result.Error = fmt.Sprintf("begun within the time that the log remembers (%v), and the log does not know it: it was restored from an old copy, "+
			"or another coordinator has its cluster's name; compare with the other participants, and end it there by hand", k.RetentionHorizon)
	case k.State == 0 && j.action == 0:
		j.result.Error = fmt.Sprintf("prepared for longer than the log remembers (%v): it may have been decided to commit, "+
			"and forgotten; compare with the other participants, and end it there by hand", k.RetentionHorizon)
	}
	// The name at the participant is the truth about the branch, whatever the log has.
	j.branch.TX, j.branch.ID, j.branch.XID = s.TX, s.Branch, s.XID
	return j
}

// age is the longest time for which a branch may have been prepared; zero when the
// participant does not report it. An age that is too low would roll back a branch
// whose commit may be forgotten, so the possible difference between the participant's
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

// ClockSlack is the assumed largest difference between two clocks that have to be compared:
// the coordinator's, a participant's, and those that make ids.
const ClockSlack = time.Minute

// runSweepTasks runs tasks through the participant's lane and waits for them. When ctx
// ends, those that have not begun are cancelled.
func (r *Recovery) runSweepTasks(ctx context.Context, name string, sweepTasks []*sweepTask) {
	if len(sweepTasks) == 0 {
		return
	}
	now := r.now()
	r.mu.Lock()
	l := r.laneLocked(name)
	for _, j := range sweepTasks {
		j.ctx, j.queued, j.done = ctx, now, make(chan struct{})
	}
	l.sweepTasks = append(l.sweepTasks, sweepTasks...)
	r.markDirtyLocked(l)
	r.dispatchLocked(now)
	r.wake()
	r.mu.Unlock()

	for _, j := range sweepTasks {
		select {
		case <-j.done:
		case <-ctx.Done():
			r.cancelSweepTasks(l, ctx)
			<-j.done
		}
	}
}

// cancelSweepTasks removes the tasks of a sweep that have not begun.
func (r *Recovery) cancelSweepTasks(l *lane, sweep context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.sweepTasks = slices.DeleteFunc(l.sweepTasks, func(j *sweepTask) bool {
		if j.ctx != sweep {
			return false
		}
		j.markNotTried(l)
		close(j.done)
		return true
	})
	r.markDirtyLocked(l)
	r.dispatchLocked(r.now())
}

func (j *sweepTask) markNotTried(l *lane) {
	j.result.Error = "not tried: the sweep ended first"
	if l.lastErr != "" {
		j.result.Error += "; the participant's last error: " + l.lastErr
	}
}

// runSweepTask makes the one attempt, on a worker, and returns the feedback for the pool.
func (r *Recovery) runSweepTask(l *lane, j *sweepTask, probe bool) error {
	ctx, cancel := context.WithTimeout(j.ctx, r.cfg.CallTimeout)
	defer cancel()
	a := attemptResult{at: time.Now(), stale: ctx.Err() != nil}
	if !a.stale {
		a.report, a.err = r.attemptSweepTask(ctx, l.name, j)
	}
	a.took = time.Since(a.at)

	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	defer close(j.done)
	r.endCallLocked(l)
	text := l.text(a.err)
	committedOnce := errors.As(a.err, new(*commitRecordError))
	switch {
	case a.err == nil && !a.stale, committedOnce:
		l.recordSuccessLocked()
	case j.ctx.Err() != nil:
		l.br.cancelProbe(probe)
	default:
		r.recordFailureLocked(l, text, now, probe)
	}
	switch {
	case a.stale:
		j.markNotTried(l)
	case committedOnce:
		j.result.Class, j.result.Error = classLeave, text
	case a.err != nil:
		j.result.Error = text
		r.recordSweepAttemptLocked(j, a, text)
	case a.report.Heuristic != 0:
		j.result.Error = redact(fmt.Sprintf("ended otherwise: %v (%s)", a.report.Heuristic, a.report.Detail))
		r.recordSweepAttemptLocked(j, a, text)
		if j.result.State != 0 {
			r.addReportLocked(j.branch.TX, reportEntry{BranchResult: a.report})
		}
	default:
		j.result.Done = true
	}
	r.dispatchLocked(now)
	return a.feedback(a.stale)
}

// recordSweepAttemptLocked records an attempt that did not end the branch as wanted; mu is
// held.
func (r *Recovery) recordSweepAttemptLocked(j *sweepTask, a attemptResult, text string) {
	c := attemptLog{records: []attemptRecord{a.record(j.action, text, false)}, anyFailed: true}
	r.history.retainLocked(Key{j.branch.TX, j.branch.ID}, c)
}

func (r *Recovery) attemptSweepTask(ctx context.Context, name string, j *sweepTask) (BranchResult, error) {
	p, err := r.log.Participant(ctx, name)
	if err == nil && j.result.State == 0 {
		err = checkCommitRecord(ctx, p, j.branch)
	}
	var rep BranchResult
	if err == nil {
		rep, err = call(ctx, p, j.branch, j.action)
	}
	return rep, timeoutError(ctx, r.cfg.CallTimeout, err)
}

// commitRecordError is why a branch of a transaction that the log does not know is not
// rolled back.
type commitRecordError struct{ detail string }

func (e *commitRecordError) Error() string {
	return "prepared, although there is proof that it was committed once (" + e.detail +
		"): compare with the other participants, and end it there by hand"
}

// checkCommitRecord asks the participant for proof that a branch was committed once, which
// forbids to roll it back. A missing answer forbids it as well, until the next sweep.
func checkCommitRecord(ctx context.Context, p participant.Participant, b participant.Branch) (err error) {
	inspector, ok := p.(participant.Inspector)
	if !ok {
		return nil
	}
	defer recoverPanic(&err)
	answer, err := inspector.Inspect(ctx, b)
	switch {
	case err != nil:
		return fmt.Errorf("ask for proof of its end before rolling it back: %w", err)
	case answer.Outcome == participant.Committed:
		return &commitRecordError{redact(answer.Detail)}
	}
	return nil
}
