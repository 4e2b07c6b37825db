package txn

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"time"
)

// Run runs fn in a new transaction: it commits when fn returns nil, and rolls
// back when fn returns an error, panics or ends its goroutine. fn may end the
// transaction itself; Run then adds nothing.
//
// The context that fn gets carries the transaction (see [FromContext]). It is
// cancelled when the transaction's time is over, with a cause that is
// [ErrTimedOut]. It has no deadline of its own because [Tx.Extend] moves it. The
// timeout is that of the options or the time until ctx's own deadline, but at least a
// second, whichever is shorter.
//
// When ctx carries a transaction of the same manager already, fn runs in that one:
// the options are not used, nothing is committed here, and when fn fails, the
// transaction around it cannot be committed any more.
//
// An error of fn comes back wrapped in one that is [ErrRolledBack], or, when
// statements of fn, or of another application that takes part, have ended a branch,
// [ErrEndedByHand]; errors of the commit are
// those of [Tx.Commit].
func Run(ctx context.Context, m Manager, o Options, fn func(ctx context.Context, tx *Tx) error) error {
	if outer, ok := FromContext(ctx); ok && same(outer.m, m) {
		return outer.nest(ctx, fn)
	}
	if err := o.limit(ctx); err != nil {
		return Wrap("begin", o.ID, err)
	}
	tx, err := Start(ctx, m, o)
	if err != nil {
		return err
	}
	tx.until, _ = ctx.Deadline()
	return tx.run(ctx, fn, tx.commit)
}

// RunIn runs fn in a transaction that another application began, as [Run] does, and
// prepares instead of committing: see [Tx.Prepare]. When fn fails the whole
// transaction is rolled back. After nil somebody has to call [Tx.Follow].
func RunIn(ctx context.Context, m Manager, id ID, fn func(ctx context.Context, tx *Tx) error) (*Tx, error) {
	tx, err := Attach(ctx, m, id)
	if err != nil {
		return nil, err
	}
	return tx, tx.run(ctx, fn, tx.handIn)
}

// run runs fn and ends the transaction as the caller wants it ended.
func (tx *Tx) run(ctx context.Context, fn func(context.Context, *Tx) error, finish func(ctx, work context.Context, members []*member) error) (err error) {
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
	case !first && tx.byHand() != nil:
		return tx.whereByHand(ctx, "run", nil)
	case !first && tx.ending() == RollingBack:
		return tx.refused("run", Outcome{}, tx.notTold(), nil)
	case !first:
		return &Error{Op: "run", ID: tx.ID(), Err: ErrInDoubt}
	case err == nil:
		return finish(ctx, work, members)
	}
	return tx.refuse(ctx, "run", tx.timedOut(work), Ballot{}, err)
}

// nest runs fn in a transaction that is there already.
func (tx *Tx) nest(ctx context.Context, fn func(context.Context, *Tx) error) (err error) {
	returned := false
	defer func() {
		switch {
		case !returned:
			tx.doom(errors.New("a nested function did not return"))
		case err != nil:
			tx.doom(err)
		}
	}()
	err = fn(ctx, tx)
	returned = true
	return err
}

// same reports whether two managers are one.
func same(a, b Manager) bool {
	return reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.TypeOf(a).Comparable() && a == b
}

// leastTimeout is what a timeout is shortened to at most: a coordinator refuses one that
// is below its interval, and the caller's context ends the work in any case.
const leastTimeout = time.Second

// limit shortens the timeout to the time that the caller has.
func (o *Options) limit(ctx context.Context) error {
	deadline, ok := ctx.Deadline()
	if !ok {
		return nil
	}
	left := time.Until(deadline)
	if left <= 0 {
		return context.DeadlineExceeded
	}
	if wanted := cmp.Or(o.Timeout, DefaultTimeout); left < wanted {
		o.Timeout = min(wanted, max(left, leastTimeout))
	}
	return nil
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
// transaction, not of one around it. The deadline of Run's caller is such a time, too,
// unless the transaction was extended: [Run] asks for no more than is left until then.
func (tx *Tx) timedOut(work context.Context) bool {
	tx.mu.Lock()
	extended := tx.granted > tx.begun.Timeout
	tx.mu.Unlock()
	if d, ok := work.Deadline(); ok && d.Equal(tx.until) && !extended && errors.Is(work.Err(), context.DeadlineExceeded) {
		return true
	}
	var over *Error
	return errors.As(context.Cause(work), &over) && over.ID == tx.ID() && over.Cause == CauseTimeout
}
