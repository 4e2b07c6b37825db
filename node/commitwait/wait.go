package commitwait

import (
	"context"
	"errors"
	"fmt"

	"github.com/txmgr/txmgr/timeout/purgatory"
	"github.com/txmgr/txmgr/txn"
)

// Node is the node that decides.
type Node interface {
	// Outcome returns the present outcome of a transaction. known is false when it is forgotten.
	// An error says why this node does not decide.
	Outcome(id txn.ID) (o txn.Outcome, known bool, err error)
	// RollbackError is the answer to the commit of a transaction that is rolled back; nil when it
	// is forgotten.
	RollbackError(id txn.ID) error
}

// Notifier tells that a transaction has changed; see notify.Notifier.
type Notifier interface {
	Wait(ctx context.Context, id txn.ID, check func() bool) error
	Park(ctx context.Context, id txn.ID, r purgatory.Request) (*purgatory.Parked, error)
}

// Wait returns the result of a commit when it is decided, or when ctx has ended.
func Wait(ctx context.Context, n Node, w Notifier, id txn.ID) (txn.Outcome, error) {
	v := &waiter{n: n, id: id}
	if v.check() {
		return v.result(ctx, nil)
	}
	return v.result(ctx, w.Wait(ctx, id, v.check))
}

// waiter waits for the decision of a commit. check and result are not called at the same time.
type waiter struct {
	n   Node
	id  txn.ID
	o   txn.Outcome // as of the last check
	err error       // of the last check; ends the wait, since nothing more can be learnt
}

// check reports whether the wait is over.
func (v *waiter) check() bool {
	o, known, err := v.n.Outcome(v.id)
	v.o, v.err = o, nil
	switch {
	case err != nil:
		v.err = v.inDoubt(err.Error())
	case !known:
		v.err = v.forgotten()
	}
	return v.err != nil || v.o.State.Decided()
}

// result is the result of the commit. ended is why the wait ended; nil when check ended it.
func (v *waiter) result(ctx context.Context, ended error) (txn.Outcome, error) {
	switch {
	case errors.Is(ended, purgatory.ErrStopped):
		return v.o, v.inDoubt("the coordinator is stopping")
	case ended != nil:
		e := txn.Wrap("commit", v.id, fmt.Errorf("%w: %w while the coordinator collects the votes that are missing", txn.ErrInDoubt, contextCause(ctx)))
		e.State = v.o.State
		return v.o, e
	case v.err != nil:
		return v.o, v.err
	case v.o.State.Commits():
		return v.o, nil
	}
	if err := v.n.RollbackError(v.id); err != nil {
		return v.o, err
	}
	return v.o, v.forgotten()
}

func (v *waiter) forgotten() error {
	return v.inDoubt("it was decided, and the outcome is forgotten already")
}

func (v *waiter) inDoubt(why string) error {
	return &txn.Error{Op: "commit", ID: v.id, State: v.o.State, Err: txn.ErrInDoubt, Detail: why}
}

// contextCause is why ctx has ended, even if its deadline has passed and its timer is late.
func contextCause(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return context.DeadlineExceeded
}
