package recovery

import (
	"context"
	"errors"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// reporter holds what the log has to be told: at most one call at a time for one
// transaction, so that what is learnt meanwhile goes in one report; and many
// calls at once for many, which the log packs into its entries. No worker is
// held meanwhile. Guarded by Recovery.mu.
type reporter struct {
	limit   int // calls at once
	batches map[txn.ID]*reportBatch
	queue   fifo[txn.ID]
	running int
	full    bool // until a quarter is sent
	br      breaker
}

// reportBatch is what one transaction's report will say.
type reportBatch struct {
	entries []reportEntry
	state   batchState
	fails   int
	timer   timer // when parked: waits for the next report
}

type batchState uint8

const (
	batchQueued batchState = iota
	batchSent
	batchBackingOff
)

// reportEntry is one finding and the item it settles; the item's verb is zero for the
// finding of a sweep, which settles nothing.
type reportEntry struct {
	BranchResult
	it item
}

// accepting reports whether findings can be recorded, so that calls are worth making.
func (o *reporter) accepting(now time.Duration) bool {
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
	return o.br.closed() || (len(o.batches) == 0 && o.br.ready(now))
}

// addReportLocked takes a finding; mu is held.
func (r *Recovery) addReportLocked(id txn.ID, e reportEntry) {
	b := r.reporter.batches[id]
	if b == nil {
		b = &reportBatch{}
		r.reporter.batches[id] = b
		r.reporter.queue.push(id)
	}
	b.entries = append(b.entries, e)
}

// sendReportsLocked starts as many calls as the log may get; mu is held.
func (r *Recovery) sendReportsLocked(now time.Duration) {
	o := &r.reporter
	for o.queue.len() > 0 && o.running < o.limit && o.br.ready(now) {
		id := o.queue.pop()
		o.batches[id].state = batchSent
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
	b := r.reporter.batches[id]
	entries := b.entries
	b.entries = nil
	r.mu.Unlock()

	rs := make([]BranchResult, len(entries))
	for i, e := range entries {
		rs[i] = e.BranchResult
	}
	ctx, cancel := context.WithTimeout(r.ctx, r.cfg.CallTimeout)
	defer cancel()
	err := r.log.Report(ctx, id, rs)
	done, rest := entries, []reportEntry(nil)
	if err != nil && r.ctx.Err() == nil {
		done, rest = r.dropObsolete(id, entries, err)
	}
	r.finishReport(id, probe, done, rest, err)
}

// dropObsolete separates, after an error, what the log need not be told any more.
func (r *Recovery) dropObsolete(id txn.ID, entries []reportEntry, err error) (moot, rest []reportEntry) {
	w, ok := r.log.Pending(id)
	for _, e := range entries {
		_, needed := w.branch(e.it)
		switch {
		case ok && needed:
			rest = append(rest, e)
		case e.Heuristic != 0 && !isPermanent(err):
			rest = append(rest, e) // a hazard is news even to a finished transaction
		default:
			moot = append(moot, e)
		}
	}
	return moot, rest
}

// isPermanent reports whether the log answered, and will answer so again.
func isPermanent(err error) bool {
	return errors.Is(err, txn.ErrNotFound) || errors.Is(err, txn.ErrConflict) ||
		errors.Is(err, txn.ErrNotActive) || errors.Is(err, txn.ErrInvalid)
}

// finishReport notes what came of a report.
func (r *Recovery) finishReport(id txn.ID, probe bool, done, rest []reportEntry, err error) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	o := &r.reporter
	o.running--
	if r.ctx.Err() != nil {
		return
	}
	if err == nil || isPermanent(err) {
		o.br.success()
	} else {
		o.br.failure(now, probe)
		r.wake()
	}
	for _, e := range done {
		if e.it.action != 0 {
			r.dropBranchLocked(e.it)
		}
	}
	b := o.batches[id]
	b.entries = append(rest, b.entries...)
	switch {
	case len(b.entries) == 0:
		delete(o.batches, id)
	case err == nil:
		b.fails, b.state = 0, batchQueued
		o.queue.push(id)
	default:
		b.fails++
		b.state = batchBackingOff
		r.setTimerLocked(&b.timer, item{Key: Key{TX: id}}, now+r.rereports.fullJitter(b.fails))
		r.noteUnreportedLocked(rest, err)
	}
	r.dispatchLocked(now)
}

// noteUnreportedLocked makes visible that the log is what a branch waits for; mu
// is held.
func (r *Recovery) noteUnreportedLocked(rest []reportEntry, err error) {
	text := redact("record the result: " + err.Error())
	for _, e := range rest {
		if t := r.attempts[e.it]; t != nil {
			t.count++
			t.lastErr = text
		}
	}
}
