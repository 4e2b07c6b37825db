package node

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/txmgr/txmgr/timeout/purgatory"
	"github.com/txmgr/txmgr/txn"
)

// commitWaiter waits for the decision of a commit whose votes are missing. check and answer are
// not called at the same time.
type commitWaiter struct {
	n   *Node
	id  txn.ID
	o   txn.Outcome // as of the last check
	err error       // of the last check; ends the wait, since nothing more can be learnt
}

// check reports whether the wait is over.
func (v *commitWaiter) check() bool {
	v.o, v.err = v.n.txOutcome(v.id)
	return v.err != nil || v.o.State.Decided()
}

// answer is the result of the commit. ended is why the wait ended; nil when check ended it.
func (v *commitWaiter) answer(ctx context.Context, ended error) (txn.Outcome, error) {
	switch {
	case errors.Is(ended, purgatory.ErrStopped):
		return v.o, inDoubtError(v.id, v.o, "the coordinator is stopping")
	case ended != nil:
		e := txn.Wrap("commit", v.id, fmt.Errorf("%w: %w while the coordinator collects the votes that are missing", txn.ErrInDoubt, contextCause(ctx)))
		e.State = v.o.State
		return v.o, e
	case v.err != nil:
		return v.o, v.err
	case v.o.State.Commits():
		return v.o, nil
	default:
		t, ok := v.n.stored(v.id)
		if !ok {
			return v.o, outcomeForgottenError(v.id, v.o)
		}
		return v.o, v.n.withReason(t.RollbackError("commit"))
	}
}

// contextCause is why ctx has ended, even if its deadline has passed and its timer is late.
func contextCause(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return context.DeadlineExceeded
}

// CommitAsync is [Node.Commit] for callers that spend no goroutine on the wait for missing
// votes. It calls callback exactly once, with what Commit would have returned: before it returns,
// or later on a shared goroutine, so callback must not block.
func (n *Node) CommitAsync(ctx context.Context, id txn.ID, c txn.CommitRequest, callback func(txn.Outcome, error)) {
	o, missing, err := n.proposeCommit(ctx, id, c)
	if !missing {
		callback(o, err)
		return
	}
	p := &asyncCommit{commitWaiter: commitWaiter{n: n, id: id}, ctx: ctx, callback: callback}
	if p.check() {
		callback(p.answer(ctx, nil))
		return
	}
	p.park()
}

// asyncCommit is a commit that waits without a goroutine, as a request in the purgatory.
type asyncCommit struct {
	commitWaiter
	ctx      context.Context
	callback func(txn.Outcome, error)
	stop     func() bool                      // stops ctx from calling cancel
	handle   atomic.Pointer[purgatory.Parked] // nil until it is parked
}

func (p *asyncCommit) park() {
	p.stop = context.AfterFunc(p.ctx, p.cancel)
	h, err := p.n.notifier.Park(p.ctx, p.id, p)
	if err != nil {
		p.finish(err)
		return
	}
	// If ctx ended before the handle was stored, cancel has not found it.
	if p.handle.Store(h); p.ctx.Err() != nil {
		p.cancel()
	}
}

func (p *asyncCommit) cancel() { p.handle.Load().Cancel() }

// TryComplete implements [purgatory.Request].
func (p *asyncCommit) TryComplete() bool { return p.check() }

// Complete implements [purgatory.Request].
func (p *asyncCommit) Complete(how purgatory.Outcome) {
	switch how {
	case purgatory.Satisfied:
		p.finish(nil)
	case purgatory.Stopped:
		p.finish(purgatory.ErrStopped)
	default:
		p.finish(purgatory.ErrExpired)
	}
}

func (p *asyncCommit) finish(why error) {
	p.stop()
	p.callback(p.answer(p.ctx, why))
}
