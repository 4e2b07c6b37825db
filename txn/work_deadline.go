package txn

import (
	"context"
	"time"
)

// workDeadline ends the work of [Run] when the granted timeout, with its extensions, has passed.
// The zero value is that of a transaction without Run. It is guarded by the transaction's lock.
type workDeadline struct {
	cancel context.CancelCauseFunc // cancels the work; nil without Run, and when the work is over
	over   error                   // the cause of that
	timer  context.Context         // ends at the deadline
	stop   func()                  // releases timer
	caller time.Time               // the deadline of Run's caller, to which it has shortened the timeout; zero without
}

// startDeadline cancels the work when the granted timeout, with its extensions, has passed.
func (tx *Tx) startDeadline(work context.CancelCauseFunc) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	tx.work.cancel = work
	tx.work.over = &Error{Op: "run", ID: tx.begin.ID, Cause: CauseTimeout, Err: ErrTimedOut}
	tx.work.extend(tx.begin.Timeout)
}

// stopDeadline disarms the timer of the work, also for later extensions.
func (tx *Tx) stopDeadline() {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	tx.work.cancel = nil
	tx.work.stop()
}

// isOver reports whether the deadline has passed.
func (d *workDeadline) isOver() bool { return d.timer != nil && d.timer.Err() != nil }

// extend ends the work after timeout, unless it ends later already.
func (d *workDeadline) extend(timeout time.Duration) {
	if d.cancel == nil {
		return
	}
	// Contexts, because comparing two of them needs no reading of the clock.
	timer, cancel := context.WithTimeout(context.Background(), timeout)
	if d.timer != nil {
		until, _ := timer.Deadline()
		if granted, _ := d.timer.Deadline(); !until.After(granted) {
			cancel()
			return
		}
		d.stop()
	}
	work, over := d.cancel, d.over
	stop := context.AfterFunc(timer, func() { work(over) })
	d.timer = timer
	d.stop = func() { stop(); cancel() } // in this order: cancel would end the work
}
