package txn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"
)

// Run runs fn in a new transaction: it commits when fn returns nil, and rolls back when fn returns an error, panics
// or ends its goroutine. fn may end the transaction itself; Run then adds nothing, and what an error of fn says of
// the end of another transaction is hidden, unless this one was rolled back.
//
// The context of fn carries the transaction (see [FromContext]). It is cancelled when the
// transaction's timeout has passed, with a cause that is [ErrTimedOut]. It has no deadline of
// its own because [Tx.Extend] moves it. The timeout is that of the options or the time until
// ctx's own deadline, but at least a second, whichever is shorter.
//
// When ctx already carries a transaction of the same manager, fn runs in that one: the options
// are not used, nothing is committed here, and when fn fails, the outer transaction cannot be
// committed any more.
//
// An error of fn comes back wrapped in one that is [ErrRolledBack], or [ErrEndedByApplication]
// when statements of fn, or of another application that takes part, have ended a branch. Errors
// of the commit are those of [Tx.Commit].
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
	tx.work.Caller, _ = ctx.Deadline()
	return tx.run(ctx, fn, tx.commit)
}

// RunIn runs fn in a transaction that another application began, as [Run] does, and prepares
// instead of committing: see [Tx.Prepare]. When fn fails the whole transaction is rolled back.
// After nil the caller must see to it that [Tx.Complete] is called.
func RunIn(ctx context.Context, m Manager, id ID, fn func(ctx context.Context, tx *Tx) error) (*Tx, error) {
	tx, err := Attach(ctx, m, id)
	if err != nil {
		return nil, err
	}
	return tx, tx.run(ctx, fn, tx.submitVotes)
}

// run runs fn and ends the transaction: with finish after nil, by a rollback otherwise.
func (tx *Tx) run(ctx context.Context, fn func(context.Context, *Tx) error, finish func(ctx, work context.Context, enrollments []*enrollment) error) (err error) {
	work, cancel := context.WithCancelCause(context.WithValue(ctx, contextKey{}, tx))
	defer cancel(nil)
	tx.startDeadline(cancel)
	defer tx.stopDeadline()

	returned := false
	defer func() {
		if !returned {
			_ = tx.Rollback(ctx, "the function did not return") // if this fails, the deadline does it
		}
	}()
	err = fn(work, tx)
	returned = true
	enrollments, first := tx.stopEnlisting()
	switch {
	case !first && err != nil && (tx.decision() != RollingBack || tx.applicationEndError() != nil): // what permits a repetition is another's
		return fmt.Errorf("%v has ended: %w", tx, maskErrors(err, retrySafeErrs...))
	case !first && (err != nil || tx.decision() == Committing):
		return err
	case !first && tx.applicationEndError() != nil:
		return tx.endedByApplicationError(ctx, "run", nil)
	case !first && tx.decision() == RollingBack:
		return tx.abortError("run", Outcome{}, tx.lastReportErr(), nil)
	case !first:
		return &Error{Op: "run", ID: tx.begin.ID, Err: ErrInDoubt}
	case err == nil:
		return finish(ctx, work, enrollments)
	}
	return tx.abort(ctx, "run", tx.timedOut(work), Votes{}, err)
}

// startDeadline cancels the work when the granted timeout, with its extensions, has passed.
func (tx *Tx) startDeadline(work context.CancelCauseFunc) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	tx.work.Start(tx.begin.Timeout, work, &Error{Op: "run", ID: tx.begin.ID, Cause: CauseTimeout, Err: ErrTimedOut})
}

// stopDeadline disarms the timer of the work, also for later extensions.
func (tx *Tx) stopDeadline() {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	tx.work.Stop()
}

// runNested runs fn in a transaction that exists already.
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

// minTimeout is the shortest timeout that capTimeout sets: a coordinator refuses one that is
// below its interval, and the caller's context ends the work in any case.
const minTimeout = time.Second

// capTimeout shortens the timeout to the time until the caller's deadline.
func (o *Options) capTimeout(ctx context.Context) error {
	deadline, ok := ctx.Deadline()
	if !ok {
		return nil
	}
	switch left, wanted := time.Until(deadline), cmp.Or(o.Timeout, DefaultTimeout); {
	case left <= 0:
		return context.DeadlineExceeded
	case left < wanted:
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

// timedOut reports whether the context of the work ended with the timeout of this transaction,
// not of an outer one. The deadline of Run's caller counts as such a timeout, too, unless the
// transaction was extended: [Run] asks for no more than is left until then.
func (tx *Tx) timedOut(work context.Context) bool {
	tx.mu.Lock()
	extended, caller := tx.work.Granted > tx.begin.Timeout, tx.work.Caller
	tx.mu.Unlock()
	if d, ok := work.Deadline(); ok && d.Equal(caller) && !extended && errors.Is(work.Err(), context.DeadlineExceeded) {
		return true
	}
	var over *Error
	return errors.As(context.Cause(work), &over) && over.ID == tx.begin.ID && over.Cause == CauseTimeout
}
