package recovery

import (
	"context"
	"errors"
	"time"

	"github.com/txmgr/txmgr/internal/redact"
	"github.com/txmgr/txmgr/recovery/breaker"
	"github.com/txmgr/txmgr/recovery/plan"
	"github.com/txmgr/txmgr/recovery/queue"
	"github.com/txmgr/txmgr/txn"
)

// reporter holds the results that the log has to record: at most one call at a time for one
// transaction, so that results that arrive meanwhile go in one report; and many
// concurrent calls for many transactions, which the log packs into its entries. No worker
// is held meanwhile. Guarded by Recovery.mu.
type reporter struct {
	limit   int // concurrent calls
	batches map[txn.ID]*reportBatch
	queue   queue.FIFO[txn.ID]
	running int
	full    bool // until a quarter is sent
	br      breaker.Breaker

	toldBlocked bool // the pools were last told that the log accepts no results
}

// reportBatch is the content of one transaction's next report.
type reportBatch struct {
	entries []reportEntry
	state   batchState
	fails   int
	timer   timer // when backing off: waits for the next report
}

type batchState uint8

const (
	batchQueued batchState = iota
	batchSent
	batchBackingOff
)

// reportEntry is one result and the item that it finishes; the item's action is zero for
// the result of a sweep, which finishes none.
type reportEntry struct {
	plan.BranchResult
	it item
}

// accepting reports whether results can be recorded, so that calls are worth making.
func (o *reporter) accepting(now time.Duration) bool {
	// When it is full, lanes are told of the change only, not of every report that is sent.
	switch n := o.queue.Len() + o.running; {
	case n >= 4*o.limit:
		o.full = true
	case n <= 3*o.limit:
		o.full = false
	}
	if o.full {
		return false
	}
	// With nothing left to report, only new work can probe the log.
	return o.br.Closed() || (len(o.batches) == 0 && o.br.Ready(now))
}

// addReportLocked adds a result; mu is held.
func (r *Recovery) addReportLocked(id txn.ID, e reportEntry) {
	b := r.reporter.batches[id]
	if b == nil {
		b = &reportBatch{}
		r.reporter.batches[id] = b
		r.reporter.queue.Push(id)
	}
	b.entries = append(b.entries, e)
}

// sendReportsLocked starts as many calls as the log's limit allows; mu is held.
func (r *Recovery) sendReportsLocked(now time.Duration) {
	o := &r.reporter
	for o.queue.Len() > 0 && o.running < o.limit && o.br.Ready(now) {
		id := o.queue.Pop()
		o.batches[id].state = batchSent
		o.running++
		probe := o.br.Begin()
		r.life.wg.Add(1)
		go r.report(id, probe)
	}
}

// report sends the entries that the batch holds now.
func (r *Recovery) report(id txn.ID, probe bool) {
	defer r.life.wg.Done()
	r.mu.Lock()
	b := r.reporter.batches[id]
	entries := b.entries
	b.entries = nil
	r.mu.Unlock()

	rs := make([]plan.BranchResult, len(entries))
	for i, e := range entries {
		rs[i] = e.BranchResult
	}
	ctx, cancel := context.WithTimeout(r.life.ctx, r.cfg.CallTimeout)
	defer cancel()
	err := r.log.Report(ctx, id, rs)
	done, rest := entries, []reportEntry(nil)
	if err != nil && r.life.ctx.Err() == nil {
		done, rest = r.dropObsolete(id, entries, err)
	}
	r.finishReport(id, probe, done, rest, err)
}

// dropObsolete separates, after an error, the entries that the log does not need any more.
func (r *Recovery) dropObsolete(id txn.ID, entries []reportEntry, err error) (moot, rest []reportEntry) {
	w, ok := r.log.Pending(id)
	for _, e := range entries {
		_, needed := w.Branch(e.it.Branch, e.it.action)
		switch {
		case ok && needed:
			rest = append(rest, e)
		case e.Heuristic != 0 && !isPermanent(err):
			rest = append(rest, e) // a heuristic outcome is new even for a finished transaction
		default:
			moot = append(moot, e)
		}
	}
	return moot, rest
}

// isPermanent reports whether the log answered, and will give the same answer again.
func isPermanent(err error) bool {
	return errors.Is(err, txn.ErrNotFound) || errors.Is(err, txn.ErrConflict) ||
		errors.Is(err, txn.ErrNotActive) || errors.Is(err, txn.ErrInvalid)
}

// finishReport records the result of a report.
func (r *Recovery) finishReport(id txn.ID, probe bool, done, rest []reportEntry, err error) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	o := &r.reporter
	o.running--
	if r.life.ctx.Err() != nil {
		return
	}
	if err == nil || isPermanent(err) {
		o.br.Success()
	} else {
		o.br.Failure(now, probe)
		r.wakeups.wake()
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
		o.queue.Push(id)
	default:
		b.fails++
		b.state = batchBackingOff
		r.setTimerLocked(&b.timer, item{Key: plan.Key{TX: id}}, now+r.backoffs.reports.FullJitter(b.fails))
		r.noteUnreportedLocked(rest, err)
	}
	r.dispatchLocked(now)
}

// noteUnreportedLocked shows, as the last error of a branch, that it waits for the log; mu
// is held.
func (r *Recovery) noteUnreportedLocked(rest []reportEntry, err error) {
	text := redact.Text("record the result: " + err.Error())
	for _, e := range rest {
		if t := r.attempts[e.it]; t != nil {
			t.count++
			t.lastErr = text
		}
	}
}

// requeueLocked queues a report that backs off again; mu is held.
func (r *Recovery) requeueLocked(id txn.ID, b *reportBatch) {
	r.wakeups.timers.cancel(&b.timer)
	b.state = batchQueued
	r.reporter.queue.Push(id)
}
