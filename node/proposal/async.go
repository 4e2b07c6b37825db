package proposal

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// sweepInterval is how often the queue looks whether the contexts of callers without a goroutine
// have ended.
const sweepInterval = 10 * time.Millisecond

// ProposeAsync is [Queue.ProposeInTerm] for callers that spend no goroutine on the wait. It calls
// answer exactly once: before it returns, or later on a goroutine of the queue, so answer must not
// block. That ctx has ended is noticed within 10 ms.
func (q *Queue) ProposeAsync(ctx context.Context, term uint64, c machine.Command, onDone func(), answer func(machine.Result, error)) {
	p := &proposal{ctx: ctx, answer: answer, onDone: onDone}
	if err := q.start(ctx, term, c, p); err != nil {
		answer(machine.Result{}, err)
	}
}

// sweepLocked has the contexts of callers looked at. The caller holds mu.
func (q *Queue) sweepLocked() {
	if !q.sweeping {
		q.sweeping = true
		time.AfterFunc(sweepInterval, q.sweep)
	}
}

// sweep answers the callers without a goroutine whose context has ended.
func (q *Queue) sweep() {
	var ended []*proposal
	q.mu.Lock()
	q.sweeping = false
	for _, b := range slices.Concat(q.inflight.batches, q.batches) {
		if b.answering {
			continue
		}
		for _, p := range b.callers {
			switch {
			case p.answer == nil:
			case p.ctx.Err() == nil:
				q.sweepLocked()
			default:
				ended = append(ended, &proposal{ctx: p.ctx, answer: p.answer})
				p.answer = nil
			}
		}
	}
	q.mu.Unlock()
	for _, p := range ended {
		p.answer(machine.Result{}, interrupted(p.ctx))
	}
}

// interrupted is the error of a caller whose context has ended after the command was put into the
// queue.
func interrupted(ctx context.Context) error {
	return fmt.Errorf("%w: %w while the command was on its way", txn.ErrInDoubt, context.Cause(ctx))
}
