package recovery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// try is what is kept of a branch from its first attempt until it is finished.
// Guarded by Recovery.mu.
type try struct {
	lane    *lane
	state   tryState
	count   int           // failed attempts
	lost    int           // calls among them that may have had an effect
	fails   int           // failed attempts since backoff was last forgotten
	lastErr string        // clipped, without secrets
	next    time.Duration // when parked: the next try
	cancel  func()        // when running: ends the call
	stale   bool          // the call was ended because the log decided meanwhile
}

type tryState uint8

const (
	trying    tryState = iota // with the pool
	parked                    // waits for its time
	waiting                   // in its lane again
	reporting                 // done; the log has to be told
)

// outcome is what came of one call.
type outcome struct {
	report  Report
	err     error
	stale   bool // nothing to be done any more, or something else
	called  bool // the participant was called
	blame   bool // the error speaks against the participant
	stopped bool
}

// dispatchLocked hands work to the pool while both have room; mu is held.
func (r *Recovery) dispatchLocked(now time.Duration) {
	if r.state != running {
		return
	}
	r.sendReportsLocked(now)
	for r.outbox.open(now) {
		l, class, ok := r.pickLocked(now)
		if !ok {
			return
		}
		if !r.submitLocked(l, class) {
			if r.inPool == 0 && !r.refused {
				r.wake() // others fill the pool: only the clock tells when to ask again
			}
			r.refused = true
			return
		}
		r.refused = false
		r.turn++
	}
}

// submitLocked hands the first of a class to the pool. The task cannot get ahead
// of what is noted here, because the first thing that it needs is mu.
func (r *Recovery) submitLocked(l *lane, class int) bool {
	probe := !l.br.closed()
	var task func()
	var it item
	if class == classJobs {
		j := l.jobs[0]
		task = func() { r.runJob(l, j, probe) }
	} else {
		it = l.queues[class].peek()
		task = func() { r.drive(l, it, probe) }
	}
	r.wg.Add(1)
	if !r.pool.TrySubmit(priorities[class], task) {
		r.wg.Done()
		return false
	}
	r.inPool++
	l.running++
	l.br.begin()
	if class == classJobs {
		l.jobs = l.jobs[1:]
	} else {
		l.queues[class].pop()
		t := r.tries[it]
		if t == nil {
			t = &try{lane: l}
			r.tries[it] = t
		}
		t.state = trying
	}
	r.restLocked(l)
	return true
}

// drive makes one attempt at one branch, on a worker.
func (r *Recovery) drive(l *lane, it item, probe bool) {
	defer r.wg.Done()
	ctx, cancel := context.WithTimeout(r.ctx, r.cfg.CallTimeout)
	defer cancel()

	r.mu.Lock()
	t := r.tries[it]
	t.cancel = cancel
	lost := t.lost
	r.mu.Unlock()

	a := r.attempt(ctx, it, lost)
	a.stopped = r.ctx.Err() != nil
	r.finish(l, it, probe, a)
}

// attempt asks the log what is to be done with the branch now, and does it.
func (r *Recovery) attempt(ctx context.Context, it item, lost int) outcome {
	w, ok := r.log.Undone(it.TX)
	if !ok {
		return outcome{stale: true}
	}
	b, ok := w.branch(it)
	if !ok {
		return outcome{stale: true}
	}
	blame := true
	if it.verb == Prepare && w.TimeLeft < r.cfg.CallTimeout {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, w.TimeLeft)
		defer cancel()
		blame = false // it was not given the time that every call gets
	}
	p, err := r.log.Participant(ctx, b.Participant)
	if err != nil {
		return outcome{err: fmt.Errorf("open participant: %w", err), blame: blame}
	}
	b.Attempts = max(b.Attempts, lost)
	rep, err := call(ctx, p, b.Branch, it.verb)
	return outcome{report: rep, err: r.late(ctx, err), called: true, blame: blame}
}

// late says in the words of an operator that a call ran out of its time.
func (r *Recovery) late(ctx context.Context, err error) error {
	if err == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("no answer within %v: %w", r.cfg.CallTimeout, err)
}

// call makes one call and judges the answer. A participant that panics is
// treated as one that failed: one driver's bug must not stop the others' work.
func call(ctx context.Context, p participant.Participant, b participant.Branch, v Verb) (rep Report, err error) {
	defer func() {
		if x := recover(); x != nil {
			err = fmt.Errorf("%v: participant panicked: %v", v, x)
		}
	}()
	if v == Prepare {
		return ask(ctx, p, b)
	}
	do := p.Commit
	if v == Rollback {
		do = p.Rollback
	}
	res, err := do(ctx, b)
	if err != nil {
		return Report{}, fmt.Errorf("%v: %w", v, err)
	}
	return judge(b.ID, v, res)
}

func ask(ctx context.Context, p participant.Participant, b participant.Branch) (Report, error) {
	asker, ok := p.(participant.Preparer)
	if !ok {
		return Report{}, errors.New("prepare: this kind of participant is prepared by the application; " +
			"register it without coordinator_prepares")
	}
	vote, detail, err := asker.Prepare(ctx, b)
	if err != nil {
		return Report{}, fmt.Errorf("prepare: %w", err)
	}
	switch vote {
	case txn.VotePrepared, txn.VoteReadOnly, txn.VoteNo:
		return Report{Branch: b.ID, Vote: vote, Detail: plain(detail)}, nil
	}
	return Report{}, fmt.Errorf("prepare: the participant answered vote %v", vote)
}

// judge turns an ending into a report: done when it is the one that was decided,
// a hazard when it is not.
func judge(id txn.BranchID, v Verb, res participant.Result) (Report, error) {
	rep := Report{Branch: id, Detail: plain(res.Detail)}
	switch {
	case res.Ending == participant.Unknown:
		rep.Hazard = txn.HazardUnknown
	case v == Commit && res.Ending == participant.Committed:
		rep.State = txn.BranchCommitted
	case v == Commit && res.Ending == participant.RolledBack:
		rep.Hazard = txn.HazardRolledBack
	case v == Rollback && res.Ending == participant.RolledBack:
		rep.State = txn.BranchRolledBack
	case v == Rollback && res.Ending == participant.Committed:
		rep.Hazard = txn.HazardCommitted
	default:
		return Report{}, fmt.Errorf("%v: the participant answered ending %v", v, res.Ending)
	}
	return rep, nil
}

// finish notes what came of an attempt and lets the next ones begin.
func (r *Recovery) finish(l *lane, it item, probe bool, a outcome) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inPool--
	l.running--
	t := r.tries[it]
	t.cancel = nil
	switch {
	case a.stopped:
		return // whoever takes over asks the log
	case a.stale || t.stale:
		l.br.release(probe)
		r.settleLocked(it)
	case a.err != nil:
		if a.blame {
			r.blameLocked(l, a.err, now, probe)
		} else {
			l.br.release(probe)
		}
		t.count++
		t.fails++
		if none := (*participant.NoEffectError)(nil); a.called && !errors.As(a.err, &none) {
			t.lost++
		}
		t.lastErr = plain(a.err.Error())
		r.parkLocked(it, t, now+r.retries.full(t.fails))
	default:
		l.br.success()
		l.lastErr = ""
		t.state = reporting
		r.addReportLocked(it.TX, entry{a.report, it})
	}
	r.dispatchLocked(now)
}

// blameLocked counts a failure of the participant; mu is held.
func (r *Recovery) blameLocked(l *lane, err error, now time.Duration, probe bool) {
	l.br.failure(now, probe)
	l.lastErr = plain(err.Error())
	r.wake()
}

// parkLocked lets a branch wait for its next try; mu is held.
func (r *Recovery) parkLocked(it item, t *try, next time.Duration) {
	t.state, t.next = parked, next
	t.lane.parked++
	r.timers.push(next, it)
	r.wake()
}

// unparkLocked puts a branch back into its lane; mu is held.
func (r *Recovery) unparkLocked(it item, t *try) {
	t.state = waiting
	t.lane.parked--
	r.queueLocked(t.lane, it)
}

// settleLocked forgets a branch that needs nothing more. After the last one of a
// transaction the log is asked once more what is left; mu is held.
func (r *Recovery) settleLocked(it item) {
	delete(r.tries, it)
	t := r.tasks[it.TX]
	t.out--
	r.tasks[it.TX] = t
	if t.out == 0 {
		r.enqueueLocked(it.TX, false)
	}
}
