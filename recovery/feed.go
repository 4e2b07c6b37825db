package recovery

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/txmgr/txmgr/adaptive"
)

// feed is a lane as its pool sees it.
type feed struct {
	r *Recovery
	l *lane
}

// Next gives the call that is next, and since when it could have been made. What the log
// says is not to be done any more is not a call, and is over here: it teaches nobody
// anything about the participant.
func (f feed) Next(int) (adaptive.Task, time.Time) {
	for {
		call, ready, stale := f.next()
		if !stale {
			return call, f.r.epoch.Add(ready)
		}
	}
}

func (f feed) next() (call adaptive.Task, ready time.Duration, stale bool) {
	r, l := f.r, f.l
	now := r.now()
	r.mu.Lock()
	if l.crew.leaving || r.readyLocked(l, now) == 0 {
		r.shut = r.shut || !r.outbox.open(now)
		r.offerLocked(l, now)
		r.mu.Unlock()
		return nil, now, false
	}
	class, _ := l.turns.Next(l.has)
	probe := l.br.begin()
	r.beginLocked(l)
	if class == classJobs {
		j := l.jobs[0]
		l.jobs = l.jobs[1:]
		ready = l.sinceLocked(j.queued, now)
		r.offerLocked(l, now)
		r.mu.Unlock()
		return guarded(func() error { return r.runJob(l, j, probe) }), ready, false
	}
	next := l.queues[class].pop()
	it := next.item
	ready = l.sinceLocked(next.since, now)
	ctx, cancel := context.WithTimeout(r.ctx, r.cfg.CallTimeout)
	t := r.tries[it]
	if t == nil {
		t = &try{lane: l}
		r.tries[it] = t
	}
	t.state, t.cancel = trying, cancel
	lost := int(t.lost)
	r.offerLocked(l, now)
	r.mu.Unlock()

	w, b, ok := r.still(it)
	if !ok {
		_ = r.finish(l, it, probe, outcome{stale: true, stopped: r.ctx.Err() != nil})
		cancel()
		return nil, now, true
	}
	b.Attempts = max(b.Attempts, lost)
	return guarded(func() error {
		defer cancel()
		a := r.attempt(ctx, it.verb, w, b)
		a.stopped = r.ctx.Err() != nil
		return r.finish(l, it, probe, a)
	}), ready, false
}

// beginLocked counts a call that begins; mu is held.
func (r *Recovery) beginLocked(l *lane) {
	r.wg.Add(1)
	l.running++
	r.calls++
	r.uncallLocked(l)
}

// endLocked counts a call that has ended; mu is held.
func (r *Recovery) endLocked(l *lane) {
	l.running--
	r.calls--
	r.touchLocked(l)
	r.wg.Done()
}

// guarded lets a panic end the process, as it would without a pool: what a participant
// does is caught where it is called, so that this is a bug of ours, with the books in
// disorder. So they are when a participant ends the goroutine.
func guarded(task adaptive.Task) adaptive.Task {
	return func() (err error) {
		ended := false
		defer func() {
			v := recover()
			if ended {
				return
			}
			if v == nil {
				v = "the call of a participant ended its goroutine"
			}
			stack := debug.Stack()
			go panic(fmt.Sprintf("recovery: %v\n%s", v, stack))
			select {} // until then
		}()
		err = task()
		ended = true
		return err
	}
}

// lostError marks a call that says nothing of what the participant can do: it ran out
// of its time, failed, or was given up. At the pool it counts as timed out, and not as
// completed: a participant that refuses everything at once has not become faster.
type lostError struct{ error }

func (e lostError) Unwrap() []error { return []error{e.error, context.DeadlineExceeded} }

// lesson is what the pool learns from a call.
func (o outcome) lesson(givenUp bool) error {
	switch {
	case o.err != nil:
		return lostError{o.err}
	case givenUp || o.stopped:
		return lostError{context.Canceled}
	}
	return nil
}

// dispatchLocked tells pools what there is to do; mu is held.
func (r *Recovery) dispatchLocked(now time.Duration) {
	if r.state != running {
		return
	}
	r.sendReportsLocked(now)
	if shut := !r.outbox.open(now); shut != r.shut {
		r.shut = shut
		for _, l := range r.active {
			r.touchLocked(l)
		}
	}
	for range 2 { // what one lane does not need any more is another's
		r.callLocked()
		for i, l := range r.dirty {
			l.dirty = false
			r.offerLocked(l, now)
			r.dirty[i] = nil
		}
		r.dirty = r.dirty[:0]
	}
}
