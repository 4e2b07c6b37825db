package txn

import (
	"context"
	"errors"
	"time"
)

// Run runs fn in a new transaction: it commits when fn returns nil, and rolls
// back when fn returns an error, panics or ends its goroutine. fn may end the
// transaction itself; Run then adds nothing.
//
// The context that fn gets carries the transaction (see [FromContext]). It is
// cancelled when the transaction's time is over, with a cause that is
// [ErrTimedOut]. It has no deadline of its own because [Tx.Extend] moves it.
//
// An error of fn comes back wrapped in one that is [ErrRolledBack]; errors of
// the commit are those of [Tx.Commit].
func Run(ctx context.Context, m Manager, o Options, fn func(ctx context.Context, tx *Tx) error) error {
	tx, err := Start(ctx, m, o)
	if err != nil {
		return err
	}
	work, cancel := context.WithCancelCause(context.WithValue(ctx, contextKey{}, tx))
	defer cancel(nil)
	tx.limit(cancel)
	defer tx.unlimit()

	returned := false
	defer func() {
		if !returned {
			_ = tx.Rollback(ctx, "the function did not return") // the deadline does it otherwise
		}
	}()
	err = fn(work, tx)
	returned = true
	members, first := tx.close()
	switch {
	case !first && (err != nil || tx.ending() == Committing):
		return err
	case !first && tx.ending() == RollingBack:
		return tx.rolledBack("run", CauseClient)
	case !first:
		return &Error{Op: "run", ID: tx.ID(), Err: ErrInDoubt}
	case err == nil:
		return tx.commit(ctx, work, members)
	case tx.timedOut(work):
		return tx.refuse(ctx, "run", CauseTimeout, err)
	}
	return tx.refuse(ctx, "run", CauseClient, err)
}

// FromContext gives the transaction that [Run] put into the context.
func FromContext(ctx context.Context) (tx *Tx, ok bool) {
	tx, ok = ctx.Value(contextKey{}).(*Tx)
	return tx, ok
}

type contextKey struct{}

// limit cancels the work when the granted time is over, or what it is extended to.
func (tx *Tx) limit(work context.CancelCauseFunc) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	tx.work = work
	tx.armLocked(tx.begun.Timeout)
}

// armLocked lets the work end so much from now, unless it ends later already.
func (tx *Tx) armLocked(d time.Duration) {
	if tx.work == nil {
		return
	}
	// Contexts, as they compare without a look at the clock.
	timer, cancel := context.WithTimeout(context.Background(), d)
	if tx.timer != nil {
		until, _ := timer.Deadline()
		if granted, _ := tx.timer.Deadline(); !until.After(granted) {
			cancel()
			return
		}
		tx.disarm()
	}
	work, over := tx.work, &Error{Op: "run", ID: tx.ID(), Cause: CauseTimeout, Err: ErrTimedOut}
	stop := context.AfterFunc(timer, func() { work(over) })
	tx.timer = timer
	tx.disarm = func() { stop(); cancel() } // in this order: cancel would end the work
}

// unlimit ends the watch over the work, also for extensions that come later.
func (tx *Tx) unlimit() {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	tx.work = nil
	tx.disarm()
}

// timedOut reports whether the context of the work ended with the time of this
// transaction, not of one around it.
func (tx *Tx) timedOut(work context.Context) bool {
	var over *Error
	return errors.As(context.Cause(work), &over) && over.ID == tx.ID() && over.Cause == CauseTimeout
}
