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
// [ErrEndedByApplication]; errors of the commit are
// those of [Tx.Commit].
func Run(ctx context.Context, m Manager, o Options, fn func(ctx context.Context, tx *Tx) error) error {
	if outer, ok := FromContext(ctx); ok && sameManager(outer.m, m) {
		return outer.runNested(ctx, fn)
	}
	if err := o.capTimeout(ctx); err != nil {
		return Wrap("begin", o.ID, err)
	}
	tx, err := Start(ctx, m, o)
	if err != nil {
		return err
	}
	tx.callerDeadline, _ = ctx.Deadline()
	return tx.run(ctx, fn, tx.commit)
}

// RunIn runs fn in a transaction that another application began, as [Run] does, and
// prepares instead of committing: see [Tx.Prepare]. When fn fails the whole
// transaction is rolled back. After nil somebody has to call [Tx.Complete].
func RunIn(ctx context.Context, m Manager, id ID, fn func(ctx context.Context, tx *Tx) error) (*Tx, error) {
	tx, err := Attach(ctx, m, id)
	if err != nil {
		return nil, err
	}
	return tx, tx.run(ctx, fn, tx.submitVotes)
}

// run runs fn and ends the transaction as the caller wants it ended.
func (tx *Tx) run(ctx context.Context, fn func(context.Context, *Tx) error, finish func(ctx, work context.Context, enrollments []*enrollment) error) (err error) {
	work, cancel := context.WithCancelCause(context.WithValue(ctx, contextKey{}, tx))
	defer cancel(nil)
	tx.startDeadline(cancel)
	defer tx.stopDeadline()

	returned := false
	defer func() {
		if !returned {
			_ = tx.Rollback(ctx, "the function did not return") // the deadline does it otherwise
		}
	}()
	err = fn(work, tx)
	returned = true
	enrollments, first := tx.stopEnlisting()
	switch {
	case !first && (err != nil || tx.decision() == Committing):
		return err
	case !first && tx.applicationEndError() != nil:
		return tx.endedByApplicationError(ctx, "run", nil)
	case !first && tx.decision() == RollingBack:
		return tx.abortError("run", Outcome{}, tx.lastReportErr(), nil)
	case !first:
		return &Error{Op: "run", ID: tx.ID(), Err: ErrInDoubt}
	case err == nil:
		return finish(ctx, work, enrollments)
	}
	return tx.abort(ctx, "run", tx.timedOut(work), Votes{}, err)
}

// runNested runs fn in a transaction that is there already.
func (tx *Tx) runNested(ctx context.Context, fn func(context.Context, *Tx) error) (err error) {
	returned := false
	defer func() {
		switch {
		case !returned:
			tx.setRollbackOnly(errors.New("a nested function did not return"))
		case err != nil:
			tx.setRollbackOnly(err)
		}
	}()
	err = fn(ctx, tx)
	returned = true
	return err
}

// sameManager reports whether two managers are one.
func sameManager(a, b Manager) bool {
	return reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.TypeOf(a).Comparable() && a == b
}

// minTimeout is what a timeout is shortened to at most: a coordinator refuses one that
// is below its interval, and the caller's context ends the work in any case.
const minTimeout = time.Second

// capTimeout shortens the timeout to the time that the caller has.
func (o *Options) capTimeout(ctx context.Context) error {
	deadline, ok := ctx.Deadline()
	if !ok {
		return nil
	}
	left := time.Until(deadline)
	if left <= 0 {
		return context.DeadlineExceeded
	}
	if wanted := cmp.Or(o.Timeout, DefaultTimeout); left < wanted {
		o.Timeout = min(wanted, max(left, minTimeout))
	}
	return nil
}

// FromContext gives the transaction that [Run] put into the context.
func FromContext(ctx context.Context) (tx *Tx, ok bool) {
	tx, ok = ctx.Value(contextKey{}).(*Tx)
	return tx, ok
}

type contextKey struct{}

// startDeadline cancels the work when the granted time is over, or what it is extended to.
func (tx *Tx) startDeadline(work context.CancelCauseFunc) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	tx.cancelWork = work
	tx.armTimerLocked(tx.begin.Timeout)
}

// armTimerLocked lets the work end so much from now, unless it ends later already.
func (tx *Tx) armTimerLocked(d time.Duration) {
	if tx.cancelWork == nil {
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
		tx.stopTimer()
	}
	work, over := tx.cancelWork, &Error{Op: "run", ID: tx.ID(), Cause: CauseTimeout, Err: ErrTimedOut}
	stop := context.AfterFunc(timer, func() { work(over) })
	tx.timer = timer
	tx.stopTimer = func() { stop(); cancel() } // in this order: cancel would end the work
}

// stopDeadline ends the watch over the work, also for extensions that come later.
func (tx *Tx) stopDeadline() {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	tx.cancelWork = nil
	tx.stopTimer()
}

// timedOut reports whether the context of the work ended with the time of this
// transaction, not of one around it. The deadline of Run's caller is such a time, too,
// unless the transaction was extended: [Run] asks for no more than is left until then.
func (tx *Tx) timedOut(work context.Context) bool {
	tx.mu.Lock()
	extended := tx.granted > tx.begin.Timeout
	tx.mu.Unlock()
	if d, ok := work.Deadline(); ok && d.Equal(tx.callerDeadline) && !extended && errors.Is(work.Err(), context.DeadlineExceeded) {
		return true
	}
	var over *Error
	return errors.As(context.Cause(work), &over) && over.ID == tx.ID() && over.Cause == CauseTimeout
}
