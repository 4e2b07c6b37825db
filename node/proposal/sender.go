package proposal

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/internal/failpoint"
	"github.com/txmgr/txmgr/raftfsm"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// inflightEntry is an entry that was proposed to raft.
type inflightEntry struct {
	future raft.ApplyFuture
	batch  *batch
	began  time.Time
}

// send proposes batch after batch and stamps each with the current tick.
func (b *Queue) send() {
	defer b.done.Done()
	defer close(b.inflightCh)
	for {
		select {
		case <-b.wake:
		case <-b.stop:
			return
		}
		b.coalesce()
		failpoint.Hit("batch")
		for l := b.next(); l != nil; l = b.next() {
			tick, _ := b.clock.Now()
			if err := raftfsm.FinishEntry(l.buf, tick, b.wall().UnixMilli(), l.commands); err != nil {
				l.answer(nil, fmt.Errorf("%w: %w", txn.ErrInvalid, err))
				b.entryCompleted()
				continue
			}
			b.count(l)
			f := inflightEntry{began: time.Now(), batch: l}
			f.future = b.raft.ApplyLog(raftfsm.WithTerm(l.buf, l.term), 0)
			if l.hasDecision {
				failpoint.Hit("decision proposed")
			}
			b.inflightCh <- f
		}
	}
}

// coalesce yields to callers that are about to propose, as long as more of them arrive: a fuller
// entry for the price of a few yields, and of none when no other goroutine is ready to run.
func (b *Queue) coalesce() {
	for had, yields := 0, 0; yields < maxYields; yields++ {
		runtime.Gosched()
		b.mu.Lock()
		got := 0
		if len(b.queue) > 0 {
			got = b.queue[0].commands
		}
		b.mu.Unlock()
		if got == had {
			return
		}
		had = got
	}
}

// next takes the first batch; nil when there is nothing to write, or not yet. Nothing is written
// in a term in which this node has not taken over: its clock may be ahead of that of a leader in
// between, whose entries it has not applied yet. Waiting callers are rejected then: one of them
// may be the goroutine that gives up leadership.
func (b *Queue) next() *batch {
	b.mu.Lock()
	if b.term != b.raft.CurrentTerm() {
		rejected := b.queue
		b.queue, b.tick = nil, false
		b.mu.Unlock()
		rejectBatches(rejected)
		return nil
	}
	defer b.mu.Unlock()
	if b.term == 0 || len(b.queue) == 0 && !b.tick {
		return nil
	}
	// A second batch in the queue means that the first one is full.
	if b.inflight > 0 && len(b.queue) < 2 && (len(b.queue) == 0 || b.queue[0].commands < b.last.commands) {
		return nil
	}
	if len(b.queue) == 0 {
		b.openBatchLocked()
	}
	l := b.queue[0]
	l.term = b.term
	b.queue = append(b.queue[:0], b.queue[1:]...)
	b.tick = false
	b.last.bytes = len(l.buf)
	b.inflight++
	b.last.commands = l.commands
	return l
}

// entryCompleted records that the callers of an entry have been answered.
func (b *Queue) entryCompleted() {
	b.stats.completed.Add(1)
	b.mu.Lock()
	b.inflight--
	b.mu.Unlock()
	b.signal()
}

// await answers the callers of each entry once it is applied, in order.
func (b *Queue) await() {
	defer b.done.Done()
	for f := range b.inflightCh {
		if f.answer() {
			b.stats.entryDurations.Record(time.Since(f.began), 1)
		}
		b.entryCompleted()
	}
}

// answer waits until the entry is applied, and reports whether it was.
func (f inflightEntry) answer() bool {
	if err := f.future.Error(); err != nil {
		f.batch.answer(nil, proposalError(err))
		return false
	}
	switch r := f.future.Response().(type) {
	case *raftfsm.Applied:
		f.batch.answer(r.Effects.Results, nil)
	case error:
		f.batch.answer(nil, r)
	default:
		f.batch.answer(nil, fmt.Errorf("log entry answered %T", r))
	}
	return true
}

// proposalError converts the error of a failed proposal for its callers.
func proposalError(err error) error {
	switch {
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress), errors.Is(err, raft.ErrEnqueueTimeout):
		return fmt.Errorf("%w: %w", txn.ErrUnavailable, err)
	default:
		// Appended but not known to be committed: it may be applied yet.
		return fmt.Errorf("%w: %w", txn.ErrInDoubt, err)
	}
}

func (l *batch) answer(results []machine.Result, err error) {
	for i, p := range l.callers {
		p.finish()
		o := proposalResult{err: err}
		if err == nil {
			o.result = results[i]
		}
		p.done <- o
	}
}
