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
	// shrinkThreshold is the size of the transactions map from which on its memory, which
	// never shrinks by itself, is given back when the last transaction is finished.
	shrinkThreshold = 4096
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
		case <-r.ctx.Done():
			return
		case <-r.wakeCh:
		case <-timer.C:
		}
		for again := true; again && r.ctx.Err() == nil; {
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
	r.iterations++
	r.sleepUntil = 0
	r.fireTimersLocked(now)
	ids = r.deferred.Due(ids, now)
	graced := len(ids)
	for r.inbox.Len() > 0 && len(ids) < planBatch {
		ids = append(ids, r.takeLocked())
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

// takeLocked takes a transaction out of the inbox; mu is held. An Add from now on
// puts it there again, since its work may change after it is read.
func (r *Recovery) takeLocked() txn.ID {
	id := r.inbox.Pop()
	t := r.transactions[id]
	t.queued = false
	r.transactions[id] = t
	return id
}

// fireTimersLocked fires the timers that are due; mu is held.
func (r *Recovery) fireTimersLocked(now time.Duration) {
	for range fireBatch {
		w := r.timers.due(now)
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
	for _, l := range r.active {
		if !l.br.Closed() && l.br.Ready(now) {
			r.markDirtyLocked(l)
		}
	}
}

// admitLocked plans one transaction and puts its branches into their lanes; mu
// is held.
func (r *Recovery) admitLocked(p *plannable, now time.Duration) {
	id := p.work.ID
	t := r.transactions[id]
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
	if t.outstanding > 0 || t.queued || t.deadlineTimer {
		r.transactions[id] = t
		return
	}
	r.peak = max(r.peak, len(r.transactions))
	delete(r.transactions, id)
	if len(r.transactions) == 0 && r.peak > shrinkThreshold {
		r.transactions, r.peak = make(map[txn.ID]txProgress), 0
	}
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
	t := r.transactions[id]
	t.deadlineTimer = false
	r.transactions[id] = t
	r.enqueueLocked(id, txn.Preparing)
}

// graceExpiredLocked reports whether the branches have no grace in the state that the
// log has now; mu is held.
func (r *Recovery) graceExpiredLocked(w *plan.PendingTx, t *txProgress) bool {
	return t.graceExpired == w.State || r.deferred.Wait == 0
}

// deferLocked plans the transaction again when the grace has expired; mu is held.
func (r *Recovery) deferLocked(id txn.ID, now time.Duration) {
	if r.deferred.Push(id, now) {
		r.wake()
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
	if r.inbox.Len() > 0 {
		return 0, true
	}
	next := now + maxSleep
	if at, ok := r.deferred.Next(); ok {
		next = min(next, at)
	}
	if at, ok := r.timers.next(); ok {
		next = min(next, at)
	}
	// A breaker that lets a probe through already waits for an event that
	// starts the dispatcher: a worker or a report that ends.
	for _, l := range r.active {
		if at := l.br.NextProbe(); at > now {
			next = min(next, at)
		}
	}
	if at := r.reporter.br.NextProbe(); at > now {
		next = min(next, at)
	}
	if r.pools > 0 {
		next = min(next, r.idleCheckAt)
	}
	r.sleepUntil = next
	return max(0, next-now), next <= now
}

// wakeByLocked makes the loop run again at a time, and does not wake it if it will
// run by then anyway; mu is held.
func (r *Recovery) wakeByLocked(at time.Duration) {
	if at < r.sleepUntil {
		r.wake()
	}
}
