package recovery

import (
	"context"
	"errors"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// outbox holds what the log has to be told: at most one call at a time for one
// transaction, so that what is learnt meanwhile goes in one report; and many
// calls at once for many, which the log packs into its entries. No worker is
// held meanwhile. Guarded by Recovery.mu.
type outbox struct {
	limit   int // calls at once
	bundles map[txn.ID]*bundle
	queue   fifo[txn.ID]
	running int
	full    bool // until a quarter is sent
	br      breaker
}

// bundle is what one transaction's report will say.
type bundle struct {
	entries []entry
	state   bundleState
	fails   int
	timer   timer // when parked: waits for the next report
}

type bundleState uint8

const (
	bundleQueued bundleState = iota
	bundleSent
	bundleParked
)

// entry is one finding and the item it settles; the item's verb is zero for the
// finding of a sweep, which settles nothing.
type entry struct {
	Report
	it item
}

// open reports whether findings can be recorded, so that calls are worth making.
func (o *outbox) open(now time.Duration) bool {
	// Lanes are told of each change: not of every report that goes, when it is full.
	switch n := o.queue.len() + o.running; {
	case n >= 4*o.limit:
		o.full = true
	case n <= 3*o.limit:
		o.full = false
	}
	if o.full {
		return false
	}
	// With nothing left to report there is nothing to probe with but new work.
	return o.br.closed() || (len(o.bundles) == 0 && o.br.ready(now))
}

// addReportLocked takes a finding; mu is held.
func (r *Recovery) addReportLocked(id txn.ID, e entry) {
	b := r.outbox.bundles[id]
	if b == nil {
		b = &bundle{}
		r.outbox.bundles[id] = b
		r.outbox.queue.push(id)
	}
	b.entries = append(b.entries, e)
}

// sendReportsLocked starts as many calls as the log may get; mu is held.
func (r *Recovery) sendReportsLocked(now time.Duration) {
	o := &r.outbox
	for o.queue.len() > 0 && o.running < o.limit && o.br.ready(now) {
		id := o.queue.pop()
		o.bundles[id].state = bundleSent
		o.running++
		probe := o.br.begin()
		r.wg.Add(1)
		go r.report(id, probe)
	}
}

// report tells the log what the bundle holds by now.
func (r *Recovery) report(id txn.ID, probe bool) {
	defer r.wg.Done()
	r.mu.Lock()
	b := r.outbox.bundles[id]
	entries := b.entries
	b.entries = nil
	r.mu.Unlock()

	rs := make([]Report, len(entries))
	for i, e := range entries {
		rs[i] = e.Report
	}
	ctx, cancel := context.WithTimeout(r.ctx, r.cfg.CallTimeout)
	defer cancel()
	err := r.log.Report(ctx, id, rs)
	done, rest := entries, []entry(nil)
	if err != nil && r.ctx.Err() == nil {
		done, rest = r.sift(id, entries, err)
	}
	r.reported(id, probe, done, rest, err)
}

// sift separates, after an error, what the log need not be told any more.
func (r *Recovery) sift(id txn.ID, entries []entry, err error) (moot, rest []entry) {
	w, ok := r.log.Undone(id)
	for _, e := range entries {
		_, needed := w.branch(e.it)
		switch {
		case ok && needed:
			rest = append(rest, e)
		case e.Hazard != 0 && !refusal(err):
			rest = append(rest, e) // a hazard is news even to a finished transaction
		default:
			moot = append(moot, e)
		}
	}
	return moot, rest
}

// refusal reports whether the log answered, and will answer so again.
func refusal(err error) bool {
	return errors.Is(err, txn.ErrNotFound) || errors.Is(err, txn.ErrConflict) ||
		errors.Is(err, txn.ErrNotActive) || errors.Is(err, txn.ErrInvalid)
}

// reported notes what came of a report.
func (r *Recovery) reported(id txn.ID, probe bool, done, rest []entry, err error) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	o := &r.outbox
	o.running--
	if r.ctx.Err() != nil {
		return
	}
	if err == nil || refusal(err) {
		o.br.success()
	} else {
		o.br.failure(now, probe)
		r.wake()
	}
	for _, e := range done {
		if e.it.verb != 0 {
			r.settleLocked(e.it)
		}
	}
	b := o.bundles[id]
	b.entries = append(rest, b.entries...)
	switch {
	case len(b.entries) == 0:
		delete(o.bundles, id)
	case err == nil:
		b.fails, b.state = 0, bundleQueued
		o.queue.push(id)
	default:
		b.fails++
		b.state = bundleParked
		r.waitLocked(&b.timer, item{Key: Key{TX: id}}, now+r.rereports.full(b.fails))
		r.noteUnreportedLocked(rest, err)
	}
	r.dispatchLocked(now)
}

// noteUnreportedLocked makes visible that the log is what a branch waits for; mu
// is held.
func (r *Recovery) noteUnreportedLocked(rest []entry, err error) {
	text := plain("record the result: " + err.Error())
	for _, e := range rest {
		if t := r.tries[e.it]; t != nil {
			t.count++
			t.lastErr = text
		}
	}
}
