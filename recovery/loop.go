package recovery

import (
	"time"

	"github.com/txmgr/txmgr/txn"
)

const (
	// planBatch is how many transactions are planned between two looks at the
	// lanes, so that workers are not kept waiting by a long inbox.
	planBatch = 256
	// fireBatch is how many of those whose time has come are woken between two
	// looks at the lanes, all under the lock: for a millisecond or two.
	fireBatch = 4096
	// crowdSize is from how many transactions on the memory of their map, which
	// never shrinks by itself, is given back when the last one is finished.
	crowdSize = 4096
)

// plannable is a transaction on its way from the inbox to the lanes.
type plannable struct {
	work   Work
	undone bool
	graced bool
}

// loop plans what was added and wakes what was parked, until Stop.
func (r *Recovery) loop() {
	timer := time.NewTimer(idle)
	defer timer.Stop()
	var ids []txn.ID
	var batch []plannable
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-r.bell:
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

// idle is how long the loop sleeps when there is nothing to wait for.
const idle = time.Hour

// step handles what is due, and says when the next thing will be.
func (r *Recovery) step(ids []txn.ID, batch []plannable) ([]txn.ID, []plannable, time.Duration, bool) {
	now := r.now()
	r.mu.Lock()
	r.looks++
	r.sleeps = 0
	r.fireLocked(now)
	ids = r.graces.due(ids, now)
	graced := len(ids)
	for r.inbox.len() > 0 && len(ids) < planBatch {
		ids = append(ids, r.takeLocked())
	}
	r.mu.Unlock()

	for i, id := range ids {
		// Without the lock: the log may be calling Add under its own.
		w, ok := r.log.Undone(id)
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
	r.knockLocked(now)
	r.restIdleLocked(now)
	r.dispatchLocked(now)
	wait, again := r.nextLocked(now)
	return ids, batch, wait, again
}

// takeLocked takes a transaction out of the inbox; mu is held. Whoever adds it
// from now on puts it there again, since its work may have changed after it is
// read.
func (r *Recovery) takeLocked() txn.ID {
	id := r.inbox.pop()
	t := r.tasks[id]
	t.queued = false
	r.tasks[id] = t
	return id
}

// fireLocked wakes what was parked until now; mu is held.
func (r *Recovery) fireLocked(now time.Duration) {
	for range fireBatch {
		w := r.timers.due(now)
		if w == nil {
			return
		}
		switch it := w.Value; {
		case it.Branch == 0 && it.verb == Settle:
			r.alarmedLocked(it.TX)
		case it.Branch == 0:
			if b := r.outbox.bundles[it.TX]; b != nil && b.state == bundleParked {
				r.requeueLocked(it.TX, b)
			}
		default:
			if t := r.tries[it]; t != nil && t.state == parked {
				r.unparkLocked(it, t, until(w))
			}
		}
	}
}

// knockLocked looks at the lanes whose breakers may let a probe through by now; mu is
// held.
func (r *Recovery) knockLocked(now time.Duration) {
	for _, l := range r.active {
		if !l.br.closed() && l.br.ready(now) {
			r.touchLocked(l)
		}
	}
}

// admitLocked plans one transaction and puts its branches into their lanes; mu
// is held.
func (r *Recovery) admitLocked(p *plannable, now time.Duration) {
	id := p.work.ID
	t := r.tasks[id]
	if p.graced {
		t.graced = p.work.State
	}
	switch {
	case !p.undone:
		// What is still queued will be found to be stale.
	case p.work.waits():
		r.awaitLocked(&p.work, &t)
	default:
		r.planLocked(&p.work, &t, now)
	}
	if t.out > 0 || t.queued || t.alarm {
		r.tasks[id] = t
		return
	}
	r.peak = max(r.peak, len(r.tasks))
	delete(r.tasks, id)
	if len(r.tasks) == 0 && r.peak > crowdSize {
		r.tasks, r.peak = make(map[txn.ID]task), 0
	}
}

// awaitLocked leaves a transaction whose decision was delegated alone until its
// deadline; mu is held. Ordinarily it is finished within the grace, so that only
// what is older costs an alarm.
func (r *Recovery) awaitLocked(w *Work, t *task) {
	now := r.now()
	switch {
	case t.alarm:
	case !r.gracedLocked(w, t) && w.TimeLeft > r.Grace():
		r.graceLocked(w.ID, now)
	default:
		t.alarm = true
		r.waitLocked(new(timer), item{Key{TX: w.ID}, Settle}, now+w.TimeLeft)
	}
}

// alarmedLocked looks again at a transaction whose deadline has come; mu is held.
func (r *Recovery) alarmedLocked(id txn.ID) {
	t := r.tasks[id]
	t.alarm = false
	r.tasks[id] = t
	r.enqueueLocked(id, txn.Preparing)
}

// gracedLocked reports whether there is no grace for the transaction's branches as
// the log has it now; mu is held.
func (r *Recovery) gracedLocked(w *Work, t *task) bool {
	return t.graced == w.State || r.graces.wait == 0
}

// graceLocked looks at the transaction again when the grace is over; mu is held.
func (r *Recovery) graceLocked(id txn.ID, now time.Duration) {
	if r.graces.push(id, now) {
		r.wake()
	}
}

// planLocked queues or parks the steps of a plan; mu is held. Branches that are left
// to the application follow when the grace is over, whatever the others do then.
func (r *Recovery) planLocked(w *Work, t *task, now time.Duration) {
	again := t.state == w.State
	if !again {
		if t.state == txn.Preparing {
			r.endPreparesLocked(w)
		}
		t.state, t.round = w.State, 0
	}
	driven := again && t.out > 0
	if again && !driven && t.round < 255 {
		t.round++
	}
	held := false
	for i, s := range Plan(*w, View{Now: now, Graced: r.gracedLocked(w, t)}) {
		first := !again || t.held && w.graceful(&w.Branches[i])
		switch it := (item{Key{w.ID, s.Branch}, s.Verb}); {
		case s.Hold == Expired:
		case s.Hold == Delegated:
			r.awaitLocked(w, t)
		case s.Hold == Grace:
			held = true
		case first:
			t.out++
			r.queueLocked(r.laneLocked(s.Participant), it, now)
		case !driven:
			t.out++
			r.repeatLocked(r.laneLocked(s.Participant), it, t, now)
		}
	}
	if held && !t.held {
		r.graceLocked(w.ID, now)
	}
	t.held = held
}

// repeatLocked parks a branch that the log shows although it was told of its end:
// once more, but slower every time. mu is held.
func (r *Recovery) repeatLocked(l *lane, it item, t *task, now time.Duration) {
	retry := &try{lane: l, fails: uint32(t.round), lastErr: "reported, but still undone in the log"}
	r.tries[it] = retry
	r.parkLocked(it, retry, now+r.retries.full(int(t.round)))
}

// endPreparesLocked ends calls that ask for votes nobody waits for any more; mu
// is held.
func (r *Recovery) endPreparesLocked(w *Work) {
	for _, b := range w.Branches {
		t := r.tries[item{Key{w.ID, b.ID}, Prepare}]
		if t != nil && t.cancel != nil {
			t.stale = true
			t.cancel()
		}
	}
}

// nextLocked says when the loop has to look again, or that it should at once; mu
// is held.
func (r *Recovery) nextLocked(now time.Duration) (wait time.Duration, again bool) {
	if r.inbox.len() > 0 {
		return 0, true
	}
	next := now + idle
	if at, ok := r.graces.next(); ok {
		next = min(next, at)
	}
	if at, ok := r.timers.next(); ok {
		next = min(next, at)
	}
	// A breaker that lets a probe through already waits for something whose end
	// starts the dispatcher: a worker, a report.
	for _, l := range r.active {
		if at := l.br.nextProbe(); at > now {
			next = min(next, at)
		}
	}
	if at := r.outbox.br.nextProbe(); at > now {
		next = min(next, at)
	}
	if r.pools > 0 {
		next = min(next, r.restAt)
	}
	r.sleeps = next
	return max(0, next-now), next <= now
}

// wakeByLocked sees to it that the loop looks again at a time, and does not disturb
// it if it will anyway; mu is held.
func (r *Recovery) wakeByLocked(at time.Duration) {
	if at < r.sleeps {
		r.wake()
	}
}
