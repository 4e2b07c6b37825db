package recovery

import (
	"time"

	"github.com/txmgr/txmgr/recovery/plan"
	"github.com/txmgr/txmgr/txn"
)

const (
	// planBatch is how many transactions are planned between two dispatches to the
	// lanes, so that workers do not wait for a long inbox.
	planBatch = 256
	// fireBatch is how many timers are fired between two dispatches to the lanes, all
	// under the lock: for a millisecond or two.
	fireBatch = 4096
)

// plannable is a transaction on its way from the inbox to the lanes.
type plannable struct {
	work         plan.PendingTx
	pending      bool
	graceExpired bool
}

// loop plans the inbox and fires due timers, until Stop.
func (r *Recovery) loop() {
	timer := time.NewTimer(maxSleep)
	defer timer.Stop()
	var ids []txn.ID
	var batch []plannable
	for {
		select {
		case <-r.life.ctx.Done():
			return
		case <-r.wakeups.ch:
		case <-timer.C:
		}
		for again := true; again && r.life.ctx.Err() == nil; {
			var wait time.Duration
			if ids, batch, wait, again = r.step(ids[:0], batch[:0]); !again {
				timer.Reset(wait)
			}
		}
	}
}

// maxSleep is how long the loop sleeps when nothing is scheduled.
const maxSleep = time.Hour

// step handles what is due, and returns when the next thing will be due.
func (r *Recovery) step(ids []txn.ID, batch []plannable) ([]txn.ID, []plannable, time.Duration, bool) {
	now := r.now()
	r.mu.Lock()
	r.wakeups.iterations++
	r.wakeups.sleepUntil = 0
	r.fireTimersLocked(now)
	ids = r.pending.deferred.Due(ids, now)
	graced := len(ids)
	for r.pending.inbox.Len() > 0 && len(ids) < planBatch {
		ids = append(ids, r.pending.takeLocked())
	}
	r.mu.Unlock()

	for i, id := range ids {
		// Without the lock: the log may be calling Add under its own.
		w, ok := r.log.Pending(id)
		if !ok && i < graced {
			continue // the ordinary commit ends here
		}
		w.ID = id
		batch = append(batch, plannable{w, ok, i < graced})
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range batch {
		r.admitLocked(&batch[i], now)
	}
	clear(batch)
	now = r.now()
	r.retryHalfOpenLocked(now)
	r.closeIdlePoolsLocked(now)
	r.dispatchLocked(now)
	wait, again := r.nextLocked(now)
	return ids, batch, wait, again
}

// fireTimersLocked fires the timers that are due; mu is held.
func (r *Recovery) fireTimersLocked(now time.Duration) {
	for range fireBatch {
		w := r.wakeups.timers.due(now)
		if w == nil {
			return
		}
		switch it := w.Value; {
		case it.Branch == 0 && it.action == plan.ResolveOutcome:
			r.deadlineReachedLocked(it.TX)
		case it.Branch == 0:
			if b := r.reporter.batches[it.TX]; b != nil && b.state == batchBackingOff {
				r.requeueLocked(it.TX, b)
			}
		default:
			if t := r.attempts[it]; t != nil && t.state == backingOff {
				r.endBackoffLocked(it, t, timerDue(w))
			}
		}
	}
}

// retryHalfOpenLocked marks the lanes whose breakers may let a probe through now; mu is
// held.
func (r *Recovery) retryHalfOpenLocked(now time.Duration) {
	for _, l := range r.lanes.active {
		if !l.health.br.Closed() && l.health.br.Ready(now) {
			r.lanes.markDirtyLocked(l)
		}
	}
}

// admitLocked plans one transaction and puts its branches into their lanes; mu
// is held.
func (r *Recovery) admitLocked(p *plannable, now time.Duration) {
	id := p.work.ID
	t := r.pending.transactions[id]
	if p.graceExpired {
		t.graceExpired = p.work.State
	}
	switch {
	case !p.pending:
		// Items that are still queued will be found to be stale.
	case p.work.AwaitsDeadline():
		r.awaitDeadlineLocked(&p.work, &t)
	default:
		r.planLocked(&p.work, &t, now)
	}
	r.pending.setLocked(id, t)
}

// awaitDeadlineLocked leaves a transaction whose decision was delegated alone until its
// deadline; mu is held. Ordinarily it is finished within the grace, so that only
// an older one costs a timer.
func (r *Recovery) awaitDeadlineLocked(w *plan.PendingTx, t *txProgress) {
	now := r.now()
	switch {
	case t.deadlineTimer:
	case !r.graceExpiredLocked(w, t) && w.TimeLeft > r.ClientGrace():
		r.deferLocked(w.ID, now)
	default:
		t.deadlineTimer = true
		r.setTimerLocked(new(timer), item{plan.Key{TX: w.ID}, plan.ResolveOutcome}, now+w.TimeLeft)
	}
}

// deadlineReachedLocked plans a transaction again whose deadline has come; mu is held.
func (r *Recovery) deadlineReachedLocked(id txn.ID) {
	t := r.pending.transactions[id]
	t.deadlineTimer = false
	r.pending.transactions[id] = t
	r.enqueueLocked(id, txn.Preparing)
}

// graceExpiredLocked reports whether the branches have no grace in the state that the
// log has now; mu is held.
func (r *Recovery) graceExpiredLocked(w *plan.PendingTx, t *txProgress) bool {
	return t.graceExpired == w.State || r.pending.deferred.Wait == 0
}

// deferLocked plans the transaction again when the grace has expired; mu is held.
func (r *Recovery) deferLocked(id txn.ID, now time.Duration) {
	if r.pending.deferred.Push(id, now) {
		r.wakeups.wake()
	}
}

// planLocked queues the steps of a plan or backs them off; mu is held. Branches that are
// left to the client follow when the grace expires, whatever the others do then.
func (r *Recovery) planLocked(w *plan.PendingTx, t *txProgress, now time.Duration) {
	again := t.state == w.State
	if !again {
		if t.state == txn.Preparing {
			r.cancelPreparesLocked(w)
		}
		t.state, t.replans = w.State, 0
	}
	driven := again && t.outstanding > 0
	if again && !driven && t.replans < 255 {
		t.replans++
	}
	awaitingClient := false
	for i, s := range plan.Plan(*w, plan.View{Now: now, GraceExpired: r.graceExpiredLocked(w, t)}) {
		first := !again || t.awaitingClient && w.LeftToClient(&w.Branches[i])
		switch it := (item{plan.Key{TX: w.ID, Branch: s.Branch}, s.Action}); {
		case s.WaitReason == plan.Expired:
		case s.WaitReason == plan.Delegated:
			r.awaitDeadlineLocked(w, t)
		case s.WaitReason == plan.ClientGrace:
			awaitingClient = true
		case first:
			t.outstanding++
			r.queueLocked(r.laneLocked(s.Participant), it, now)
		case !driven:
			t.outstanding++
			r.repeatLocked(r.laneLocked(s.Participant), it, t, now)
		}
	}
	if awaitingClient && !t.awaitingClient {
		r.deferLocked(w.ID, now)
	}
	t.awaitingClient = awaitingClient
}

// repeatLocked backs off a branch that the log shows as pending although its end was
// reported: it is tried once more, but slower every time. mu is held.
func (r *Recovery) repeatLocked(l *lane, it item, t *txProgress, now time.Duration) {
	retry := &branchAttempts{lane: l, fails: uint32(t.replans), lastErr: "reported, but still undone in the log"}
	r.attempts[it] = retry
	r.backOffLocked(it, retry, now+r.backoffs.branches.FullJitter(int(t.replans)))
}

// cancelPreparesLocked ends prepare calls whose votes are not needed any more; mu
// is held.
func (r *Recovery) cancelPreparesLocked(w *plan.PendingTx) {
	for _, b := range w.Branches {
		t := r.attempts[item{plan.Key{TX: w.ID, Branch: b.ID}, plan.Prepare}]
		if t != nil && t.cancel != nil {
			t.stale = true
			t.cancel()
		}
	}
}

// nextLocked returns when the loop has to run again, or that it should at once; mu
// is held.
func (r *Recovery) nextLocked(now time.Duration) (wait time.Duration, again bool) {
	if r.pending.inbox.Len() > 0 {
		return 0, true
	}
	next := now + maxSleep
	if at, ok := r.pending.deferred.Next(); ok {
		next = min(next, at)
	}
	if at, ok := r.wakeups.timers.next(); ok {
		next = min(next, at)
	}
	// A breaker that lets a probe through already waits for an event that
	// starts the dispatcher: a worker or a report that ends.
	for _, l := range r.lanes.active {
		if at := l.health.br.NextProbe(); at > now {
			next = min(next, at)
		}
	}
	if at := r.reporter.br.NextProbe(); at > now {
		next = min(next, at)
	}
	if r.lanes.pools > 0 {
		next = min(next, r.lanes.idleCheckAt)
	}
	r.wakeups.sleepUntil = next
	return max(0, next-now), next <= now
}
