package proposal

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
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

	invalid error // why it was not proposed
}

// send proposes batch after batch and stamps each with the current tick.
func (q *Queue) send() {
	defer q.done.Done()
	defer close(q.inflightCh)
	for {
		select {
		case <-q.wake:
		case <-q.stop:
			return
		}
		q.coalesce()
		failpoint.Hit("batch")
		for b := q.next(); b != nil; b = q.next() {
			tick, _ := q.clock.Now()
			f := inflightEntry{began: time.Now(), batch: b}
			if err := raftfsm.FinishEntry(b.buf, tick, q.wall().UnixMilli(), b.commands); err != nil {
				f.invalid = fmt.Errorf("%w: %w", txn.ErrInvalid, err)
			} else {
				q.count(b)
				f.future = q.raft.ApplyLog(raftfsm.WithTerm(b.buf, b.term), 0)
			}
			if b.hasDecision {
				failpoint.Hit("decision proposed")
			}
			q.inflightCh <- f
		}
	}
}

// coalesce yields to callers that are about to propose, as long as more of them arrive: a fuller
// entry for the price of a few yields, and of none when no other goroutine is ready to run.
func (q *Queue) coalesce() {
	for had, yields := 0, 0; yields < maxYields; yields++ {
		runtime.Gosched()
		q.mu.Lock()
		got := 0
		if len(q.batches) > 0 {
			got = q.batches[0].commands
		}
		q.mu.Unlock()
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
func (q *Queue) next() *batch {
	q.mu.Lock()
	if q.term != q.raft.CurrentTerm() {
		rejected := q.batches
		q.batches, q.requested.tick = nil, false
		q.mu.Unlock()
		rejectBatches(rejected)
		return nil
	}
	defer q.mu.Unlock()
	if q.term == 0 || len(q.batches) == 0 && !q.requested.tick {
		return nil
	}
	if len(q.batches) == 1 && q.batches[0].commands == q.batches[0].delayed && !q.requested.tick && !q.requested.delayed {
		return nil
	}
	// A second batch in the queue means that the first one is full.
	if len(q.inflight.batches) > 0 && len(q.batches) < 2 && (len(q.batches) == 0 || q.batches[0].commands < q.inflight.last.commands) {
		return nil
	}
	if len(q.batches) == 0 {
		q.openBatchLocked()
	}
	b := q.batches[0]
	b.term = q.term
	q.batches = append(q.batches[:0], q.batches[1:]...)
	q.requested.tick, q.requested.delayed = false, false
	q.inflight.last.bytes = len(b.buf)
	q.inflight.batches = append(q.inflight.batches, b)
	q.inflight.last.commands = b.commands
	return b
}

// entryCompleted records that the callers of the first entry in flight have been answered.
func (q *Queue) entryCompleted() {
	q.stats.completed.Add(1)
	q.mu.Lock()
	q.inflight.batches = slices.Delete(q.inflight.batches, 0, 1)
	q.mu.Unlock()
	q.signal()
}

// await answers the callers of each entry once it is applied, in order.
func (q *Queue) await() {
	defer q.done.Done()
	for f := range q.inflightCh {
		results, err := f.results()
		if err == nil {
			q.stats.entryDurations.Record(time.Since(f.began), 1)
		}
		q.complete(f.batch, results, err)
	}
}

// complete answers the callers of the first entry in flight.
func (q *Queue) complete(b *batch, results []machine.Result, err error) {
	q.mu.Lock()
	b.answering = true
	q.mu.Unlock()
	b.answer(results, err)
	q.entryCompleted()
}

// results waits until the entry is applied.
func (f inflightEntry) results() ([]machine.Result, error) {
	if f.invalid != nil {
		return nil, f.invalid
	}
	if err := f.future.Error(); err != nil {
		return nil, proposalError(err)
	}
	switch r := f.future.Response().(type) {
	case *raftfsm.Applied:
		return r.Effects.Results, nil
	case error:
		return nil, r
	default:
		return nil, fmt.Errorf("log entry answered %T", r)
	}
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

// answer answers the callers, in their order. The batch is the queue's no more, or answering.
func (b *batch) answer(results []machine.Result, err error) {
	for i, p := range b.callers {
		p.finish()
		o := proposalResult{err: err}
		if err == nil {
			o.result = results[i]
		}
		switch {
		case p.done != nil:
			p.done <- o
		case p.answer != nil: // else its context has ended
			p.answer(o.result, o.err)
		}
	}
}
