package recovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/txmgr/txmgr/internal/redact"
	"github.com/txmgr/txmgr/recovery/call"
	"github.com/txmgr/txmgr/recovery/history"
	"github.com/txmgr/txmgr/recovery/plan"
	"github.com/txmgr/txmgr/recovery/scan"
)

// sweepTask is one orphan that a sweep wants to end, or an appointed branch of which it wants to know whether it has committed. It is queued in the
// participant's lane with less weight than pending work, and is tried once: the next
// sweep finds what is left.
type sweepTask struct {
	scan.Orphan // its Result belongs to the sweep until it is queued, and after it is done

	ctx    context.Context // the sweep's own
	queued time.Duration   // when; on recovery's scale
	done   chan struct{}
}

func newSweepTasks(orphans []scan.Orphan) []*sweepTask {
	sweepTasks := make([]*sweepTask, len(orphans))
	for i, o := range orphans {
		sweepTasks[i] = &sweepTask{Orphan: o}
	}
	return sweepTasks
}

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
	l.waiting.sweepTasks = append(l.waiting.sweepTasks, sweepTasks...)
	r.lanes.markDirtyLocked(l)
	r.dispatchLocked(now)
	r.wakeups.wake()
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
	l.waiting.sweepTasks = slices.DeleteFunc(l.waiting.sweepTasks, func(j *sweepTask) bool {
		if j.ctx != sweep {
			return false
		}
		j.markNotTried(l)
		close(j.done)
		return true
	})
	r.lanes.markDirtyLocked(l)
	r.dispatchLocked(r.now())
}

func (j *sweepTask) markNotTried(l *lane) {
	j.Result.Error = "not tried: the sweep ended first"
	if l.health.lastErr != "" {
		j.Result.Error += "; the participant's last error: " + l.health.lastErr
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
	text := l.health.text(a.err)
	committedOnce := errors.As(a.err, new(*call.CommitRecordError))
	switch {
	case a.err == nil && !a.stale, committedOnce:
		l.health.recordSuccessLocked()
	case j.ctx.Err() != nil:
		l.health.br.CancelProbe(probe)
	default:
		r.recordFailureLocked(l, text, now, probe)
	}
	switch {
	case a.stale:
		j.markNotTried(l)
	case committedOnce:
		j.Result.Class, j.Result.Error = scan.ClassLeave, text
	case a.err != nil:
		j.Result.Error = text
		r.recordSweepAttemptLocked(j, a, text)
	case a.report.Heuristic != 0:
		j.Result.Error = redact.Text(fmt.Sprintf("ended otherwise: %v (%s)", a.report.Heuristic, a.report.Detail))
		r.recordSweepAttemptLocked(j, a, text)
		if j.Result.State != 0 {
			r.addReportLocked(j.Branch.TX, reportEntry{BranchResult: a.report})
		}
	case j.Action == plan.ReadOutcome && a.report.State != 0:
		r.recordSweepAttemptLocked(j, a, text)
		r.addReportLocked(j.Branch.TX, reportEntry{BranchResult: a.report})
	default:
		j.Result.Done = true
	}
	r.dispatchLocked(now)
	return a.feedback(a.stale)
}

// recordSweepAttemptLocked records an attempt that did not end the branch as wanted; mu is
// held.
func (r *Recovery) recordSweepAttemptLocked(j *sweepTask, a attemptResult, text string) {
	r.history.Retain(plan.Key{TX: j.Branch.TX, Branch: j.Branch.ID}, history.NewAttempts(a.record(j.Action, text, false)))
}

func (r *Recovery) attemptSweepTask(ctx context.Context, name string, j *sweepTask) (plan.BranchResult, error) {
	p, err := r.log.Participant(ctx, name)
	if err == nil && j.Action == plan.Rollback && j.Result.State == 0 {
		err = call.CheckCommitRecord(ctx, p, j.Branch)
	}
	var rep plan.BranchResult
	if err == nil {
		rep, err = call.Do(ctx, p, j.Branch, j.Action)
	}
	return rep, call.TimeoutError(ctx, r.cfg.CallTimeout, err)
}
