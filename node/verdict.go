package node

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/txmgr/txmgr/timeout/purgatory"
	"github.com/txmgr/txmgr/txn"
)

// verdict is what a commit waits for while votes are missing. look and answer are not
// called at the same time.
type verdict struct {
	n   *Node
	id  txn.ID
	o   txn.Outcome // as look has seen it last
	err error       // of look: who waits on would not learn more
}

// look reports whether the wait is over.
func (v *verdict) look() bool {
	v.o, v.err = v.n.standing(v.id)
	return v.err != nil || v.o.State.Decided()
}

// answer is that of the commit, by what ended the wait: nil for look.
func (v *verdict) answer(ctx context.Context, ended error) (txn.Outcome, error) {
	switch {
	case errors.Is(ended, purgatory.ErrStopped):
		return v.o, undecided(v.id, v.o, "the coordinator is stopping")
	case ended != nil:
		e := txn.Wrap("commit", v.id, fmt.Errorf("%w: %w while the coordinator collects the votes that are missing", txn.ErrInDoubt, causeOf(ctx)))
		e.State = v.o.State
		return v.o, e
	case v.err != nil:
		return v.o, v.err
	case v.o.State.Commits():
		return v.o, nil
	default:
		t, ok := v.n.stored(v.id)
		if !ok {
			return v.o, forgottenMeanwhile(v.id, v.o)
		}
		return v.o, v.n.withReason(t.Refusal("commit"))
	}
}

// causeOf is why ctx has ended, also when its deadline has passed and its timer is late.
func causeOf(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return context.DeadlineExceeded
}

// CommitThen is [Node.Commit] for callers who have no goroutine to spare while votes are
// missing. It calls then once, with what Commit would have returned: before it returns, or
// afterwards, on a goroutine that others wait for, so then must not block.
func (n *Node) CommitThen(ctx context.Context, id txn.ID, c txn.Commitment, then func(txn.Outcome, error)) {
	o, missing, err := n.askCommit(ctx, id, c)
	if !missing {
		then(o, err)
		return
	}
	p := &parkedCommit{verdict: verdict{n: n, id: id}, ctx: ctx, then: then}
	if p.look() {
		then(p.answer(ctx, nil))
		return
	}
	p.park()
}

// parkedCommit is a commit without a goroutine: a request of the purgatory.
type parkedCommit struct {
	verdict
	ctx    context.Context
	then   func(txn.Outcome, error)
	stop   func() bool                      // does without giveUp
	handle atomic.Pointer[purgatory.Parked] // nil until it is parked
}

func (p *parkedCommit) park() {
	p.stop = context.AfterFunc(p.ctx, p.giveUp)
	h, err := p.n.hub.waits.requests.Park(p, remaining(p.ctx), p.id)
	if err != nil {
		p.end(err)
		return
	}
	// Whoever has ended ctx before the handle was there has not found it.
	if p.handle.Store(h); p.ctx.Err() != nil {
		p.giveUp()
	}
}

func (p *parkedCommit) giveUp() { p.handle.Load().Cancel() }

// TryComplete implements [purgatory.Request].
func (p *parkedCommit) TryComplete() bool { return p.look() }

// Complete implements [purgatory.Request].
func (p *parkedCommit) Complete(how purgatory.Outcome) {
	switch how {
	case purgatory.Satisfied:
		p.end(nil)
	case purgatory.Stopped:
		p.end(purgatory.ErrStopped)
	default:
		p.end(purgatory.ErrExpired)
	}
}

func (p *parkedCommit) end(why error) {
	p.stop()
	p.then(p.answer(p.ctx, why))
}
