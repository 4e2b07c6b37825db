package txn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
)

// byHand is what the first session said that was ended by the application's own
// statements; nil when none was. It is known when the sessions have been driven.
func (tx *Tx) byHand() error {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	for _, mb := range tx.members {
		if err := mb.byHand.Load(); err != nil {
			return *err
		}
	}
	return nil
}

// votesByHand are the votes of the branches that were ended by hand.
func (tx *Tx) votesByHand() (votes []BranchVote) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	for _, mb := range tx.members {
		if mb.byHand.Load() != nil && mb.branch.ID != 0 {
			votes = append(votes, BranchVote{mb.branch.ID, VoteEndedByHand})
		}
	}
	return votes
}

// endedByHand has the coordinator record a branch that was ended by hand, and roll back
// what can be rolled back, and says where that left the transaction. The others that
// take part in it learn it from the coordinator.
func (tx *Tx) endedByHand(ctx context.Context, op string, no Ballot, acks []Ack, why error) error {
	no.Votes = append(tx.votesByHand(), no.Votes...)
	no.Reason = tx.byHand().Error()
	if _, err := tx.tell(ctx, no, acks); err != nil {
		why = errors.Join(why, fmt.Errorf("the coordinator could not be told: %w", err))
	}
	return tx.whereByHand(ctx, op, why)
}

// whereByHand is the error of a transaction with a branch that was ended by hand. How
// that branch ended the coordinator finds out; it is given the time of phase two.
func (tx *Tx) whereByHand(ctx context.Context, op string, why error) error {
	e := &Error{Op: op, ID: tx.ID(), Err: ErrEndedByHand}
	ctx, cancel := detached(ctx)
	defer cancel()
	info, err := tx.m.Wait(ctx, tx.ID(), Finished)
	if err == nil || info.State != 0 {
		e.State, e.Cause, e.Hazard = info.State, info.Cause, info.Hazard
	}
	byHand := tx.byHand()
	if why != nil && !errors.Is(why, ErrEndedByHand) {
		byHand = fmt.Errorf("%w; %w", byHand, why)
	}
	return because(e, byHand)
}

// rolledBack is the error of a rollback: see [Outcome.rolledBack].
func (tx *Tx) rolledBack(op string, o Outcome) error {
	o.State = RollingBack
	return tx.heard(o).rolledBack(op, tx.ID())
}

// heard remembers what the coordinator has said of a branch, of whichever application,
// that was ended by hand or has become a hazard, and adds to o what it has said before.
func (tx *Tx) heard(o Outcome) Outcome {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	o.EndedByHand = o.EndedByHand || tx.said.EndedByHand
	o.Hazard = cmp.Or(o.Hazard, tx.said.Hazard)
	o.Cause = cmp.Or(o.Cause, tx.said.Cause)
	tx.said = o
	return o
}

// rolledBack is the error of a rollback: [ErrRolledBack], unless a branch was ended by
// hand, or is a hazard.
func (o Outcome) rolledBack(op string, id ID) *Error {
	e := &Error{Op: op, ID: id, State: o.State, Cause: o.Cause, Hazard: o.Hazard, Err: ErrRolledBack}
	switch {
	case o.EndedByHand:
		e.Err = ErrEndedByHand
	case o.Hazard != 0:
		e.Err = ErrHazard
	}
	return e
}

// undone reports whether the coordinator has answered that the transaction is rolled
// back, whether or not something of it may be applied.
func undone(err error) bool {
	o := outcomeOf(err)
	return errors.Is(err, ErrRolledBack) || o.EndedByHand || o.Hazard != 0 && o.State.Decided() && !o.State.Commits()
}

// outcomeOf is what an error says of a transaction that is rolled back. One that came
// over the network does not say which hazard it is.
func outcomeOf(err error) (o Outcome) {
	o.EndedByHand = errors.Is(err, ErrEndedByHand)
	if e := (*Error)(nil); errors.As(err, &e) {
		o.State, o.Cause, o.Hazard = e.State, e.Cause, e.Hazard
	}
	if o.Hazard == 0 && errors.Is(err, ErrHazard) {
		o.Hazard = HazardUnknown
	}
	return o
}
