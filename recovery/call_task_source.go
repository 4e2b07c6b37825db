package recovery

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/txmgr/txmgr/adaptive"
)

// taskSource is a lane as its pool sees it.
type taskSource struct {
	r *Recovery
	l *lane
}

// Next returns the next call, and since when it was ready. An item that the log does not
// need any more is not a call, and is dropped here: it carries no information about the
// participant.
func (f taskSource) Next(int) (adaptive.Task, time.Time) {
	for {
		call, ready, stale := f.next()
		if !stale {
			return call, f.r.life.epoch.Add(ready)
		}
	}
}

func (f taskSource) next() (call adaptive.Task, ready time.Duration, stale bool) {
	r, l := f.r, f.l
	now := r.now()
	r.mu.Lock()
	if l.workerPool.closing || r.readyLocked(l, now) == 0 {
		r.reporter.toldBlocked = r.reporter.toldBlocked || !r.reporter.accepting(now)
		r.setReadyLocked(l, now)
		r.mu.Unlock()
		return nil, now, false
	}
	class, _ := l.waiting.roundRobin.Next(l.waiting.has)
	probe := l.health.br.Begin()
	r.beginCallLocked(l)
	if class == queueSweeps {
		j := l.waiting.sweepTasks[0]
		l.waiting.sweepTasks = l.waiting.sweepTasks[1:]
		ready = l.readySinceLocked(j.queued, now)
		r.setReadyLocked(l, now)
		r.mu.Unlock()
		return fatalOnPanic(func() error { return r.runSweepTask(l, j, probe) }), ready, false
	}
	next := l.waiting.queues[class].Pop()
	it := next.item
	ready = l.readySinceLocked(next.since, now)
	ctx, cancel := context.WithTimeout(r.life.ctx, r.cfg.CallTimeout)
	t := r.attempts[it]
	if t == nil {
		t = &branchAttempts{lane: l}
		r.attempts[it] = t
	}
	t.state, t.cancel = calling, cancel
	lost := int(t.uncertain)
	r.setReadyLocked(l, now)
	r.mu.Unlock()

	w, b, ok := r.recheck(it)
	if !ok {
		_ = r.completeAttempt(l, it, probe, attemptResult{stale: true, stopped: r.life.ctx.Err() != nil})
		cancel()
		return nil, now, true
	}
	b.Attempts = max(b.Attempts, lost)
	return fatalOnPanic(func() error {
		defer cancel()
		a := r.attempt(ctx, it.action, w, b)
		a.stopped = r.life.ctx.Err() != nil
		return r.completeAttempt(l, it, probe, a)
	}), ready, false
}

// beginCallLocked counts a call that begins; mu is held.
func (r *Recovery) beginCallLocked(l *lane) {
	r.life.wg.Add(1)
	l.running++
	r.calls.running++
	r.calls.unreserveLocked(l)
}

// endCallLocked counts a call that has ended; mu is held.
func (r *Recovery) endCallLocked(l *lane) {
	l.running--
	r.calls.running--
	r.lanes.markDirtyLocked(l)
	r.life.wg.Done()
}

// fatalOnPanic makes a panic end the process, as it would without a pool: a panic of a
// participant is caught where it is called, so that this is a bug of recovery, with
// inconsistent state. The same holds when a participant ends the goroutine.
func fatalOnPanic(task adaptive.Task) adaptive.Task {
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
			select {} // until the panic ends the process
		}()
		err = task()
		ended = true
		return err
	}
}

// noSignalError marks a call that carries no information about the participant's capacity:
// it timed out, failed, or was given up. The pool counts it as timed out, and not as
// completed: a participant that refuses everything at once has not become faster.
type noSignalError struct{ error }

func (e noSignalError) Unwrap() []error { return []error{e.error, context.DeadlineExceeded} }

// feedback is the result of a call as the pool counts it.
func (o attemptResult) feedback(givenUp bool) error {
	switch {
	case o.err != nil:
		return noSignalError{o.err}
	case givenUp || o.stopped:
		return noSignalError{context.Canceled}
	}
	return nil
}

// dispatchLocked tells the pools how many calls are ready; mu is held.
func (r *Recovery) dispatchLocked(now time.Duration) {
	if r.state != running {
		return
	}
	r.sendReportsLocked(now)
	if blocked := !r.reporter.accepting(now); blocked != r.reporter.toldBlocked {
		r.reporter.toldBlocked = blocked
		for _, l := range r.lanes.active {
			r.lanes.markDirtyLocked(l)
		}
	}
	for range 2 { // a call that one lane releases is free for another
		r.reserveLocked()
		for i, l := range r.lanes.dirty {
			l.dirty = false
			r.setReadyLocked(l, now)
			r.lanes.dirty[i] = nil
		}
		r.lanes.dirty = r.lanes.dirty[:0]
	}
}
