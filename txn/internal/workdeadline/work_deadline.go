// Package workdeadline has the deadline of the work in a transaction.
package workdeadline

import (
	"context"
	"time"
)

// Deadline cancels the work of a transaction when the granted timeout, with its extensions, has
// passed. The zero value has no work to cancel, and only keeps the timeout. It is not safe for
// concurrent use.
type Deadline struct {
	// Granted is the longest timeout so far.
	Granted time.Duration
	// Caller is the deadline of the work's caller, to which that has shortened the timeout;
	// zero without.
	Caller time.Time

	cancel context.CancelCauseFunc // cancels the work; nil without work, and when it has ended
	cause  error                   // of that
	timer  context.Context         // ends at the deadline
	stop   func()                  // releases timer
}

// Start cancels the work, for the given cause, when the timeout has passed.
func (d *Deadline) Start(timeout time.Duration, cancel context.CancelCauseFunc, cause error) {
	d.cancel, d.cause = cancel, cause
	d.Extend(timeout)
}

// Stop ends that, also for later extensions. It is called once after Start.
func (d *Deadline) Stop() {
	d.cancel = nil
	d.stop()
}

// Passed reports whether the deadline has passed.
func (d *Deadline) Passed() bool { return d.timer != nil && d.timer.Err() != nil }

// Extend moves the deadline to a timeout from now, unless it is later already.
func (d *Deadline) Extend(timeout time.Duration) {
	d.Granted = max(d.Granted, timeout)
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
	work, cause := d.cancel, d.cause
	stop := context.AfterFunc(timer, func() { work(cause) })
	d.timer = timer
	d.stop = func() { stop(); cancel() } // in this order: cancel would end the work
}
