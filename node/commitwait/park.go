package commitwait

import (
	"context"
	"sync/atomic"

	"github.com/txmgr/txmgr/timeout/purgatory"
	"github.com/txmgr/txmgr/txn"
)

// Park is [Wait] for callers that spend no goroutine on the wait. It calls answer exactly once,
// before it returns or later on a shared goroutine, so answer must not block.
func Park(ctx context.Context, n Node, w Notifier, id txn.ID, answer func(txn.Outcome, error)) {
	p := &parked{waiter: waiter{n: n, id: id}, ctx: ctx, answer: answer}
	if p.check() {
		answer(p.result(ctx, nil))
		return
	}
	p.stop = context.AfterFunc(ctx, p.cancel)
	h, err := w.Park(ctx, id, p)
	if err != nil {
		p.finish(err)
		return
	}
	// If ctx ended before the handle was stored, cancel has not found it.
	if p.handle.Store(h); ctx.Err() != nil {
		p.cancel()
	}
}

// parked is a commit that waits without a goroutine, as a request in the purgatory.
type parked struct {
	waiter
	ctx    context.Context
	answer func(txn.Outcome, error)
	stop   func() bool                      // stops ctx from calling cancel
	handle atomic.Pointer[purgatory.Parked] // nil until it is parked
}

func (p *parked) cancel() { p.handle.Load().Cancel() }

// TryComplete implements [purgatory.Request].
func (p *parked) TryComplete() bool { return p.check() }

// Complete implements [purgatory.Request].
func (p *parked) Complete(how purgatory.Outcome) {
	switch how {
	case purgatory.Satisfied:
		p.finish(nil)
	case purgatory.Stopped:
		p.finish(purgatory.ErrStopped)
	default:
		p.finish(purgatory.ErrExpired)
	}
}

func (p *parked) finish(why error) {
	p.stop()
	p.answer(p.result(p.ctx, why))
}
