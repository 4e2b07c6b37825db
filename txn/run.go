package txn

import (
	"context"
	"errors"
)

// Run runs fn in a new transaction: it commits when fn returns nil, and rolls
// back when fn returns an error, panics or ends its goroutine. fn may end the
// transaction itself; Run then adds nothing.
//
// The context that fn gets carries the transaction (see [FromContext]) and ends
// when its time is over, with a cause that is [ErrTimedOut].
//
// An error of fn comes back wrapped in one that is [ErrRolledBack]; errors of
// the commit are those of [Tx.Commit].
func Run(ctx context.Context, m Manager, o Options, fn func(ctx context.Context, tx *Tx) error) error {
	tx, err := Start(ctx, m, o)
	if err != nil {
		return err
	}
	over := &Error{Op: "run", ID: tx.ID(), Cause: CauseTimeout, Err: ErrTimedOut}
	work, cancel := context.WithTimeoutCause(context.WithValue(ctx, contextKey{}, tx), tx.Timeout(), over)
	defer cancel()

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

// timedOut reports whether the context of the work ended with the time of this
// transaction, not of one around it.
func (tx *Tx) timedOut(work context.Context) bool {
	var over *Error
	return errors.As(context.Cause(work), &over) && over.ID == tx.ID() && over.Cause == CauseTimeout
}
