package txn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
)

// applicationEndError is the first error of a resource whose branch was ended by the
// application's own statements; nil when there is none. It is complete once the resources have
// prepared or ended.
func (tx *Tx) applicationEndError() error {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	for _, en := range tx.enrollments {
		if err := en.endedByApplication.Load(); err != nil {
			return *err
		}
	}
	return nil
}

// endedByApplicationVotes are the votes of the branches that were ended by the application.
func (tx *Tx) endedByApplicationVotes() (votes []BranchVote) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	for _, en := range tx.enrollments {
		if en.endedByApplication.Load() != nil && en.branch.ID != 0 {
			votes = append(votes, BranchVote{en.branch.ID, VoteEndedByApplication})
		}
	}
	return votes
}

// reportEndedByApplication has the coordinator record a branch that was ended by the
// application and roll back what can be rolled back; the error says where that left the
// transaction. The other applications that take part in it learn it from the coordinator.
func (tx *Tx) reportEndedByApplication(ctx context.Context, op string, no Votes, reports []CompletionReport, why error) error {
	no.Votes = append(tx.endedByApplicationVotes(), no.Votes...)
	no.Reason = tx.applicationEndError().Error()
	if _, err := tx.reportRollback(ctx, no, reports); err != nil {
		why = errors.Join(why, fmt.Errorf("the coordinator could not be told: %w", err))
	}
	return tx.endedByApplicationError(ctx, op, why)
}

// endedByApplicationError is the error of a transaction with a branch that was ended by the
// application. The coordinator finds out how that branch ended, and gets the time of phase two
// for it.
func (tx *Tx) endedByApplicationError(ctx context.Context, op string, why error) error {
	e := &Error{Op: op, ID: tx.begin.ID, Err: ErrEndedByApplication}
	ctx, cancel := detachedContext(ctx)
	defer cancel()
	info, err := tx.m.Wait(ctx, tx.begin.ID, UntilFinished)
	if err == nil || info.State != 0 {
		e.State, e.Cause, e.Heuristic = info.State, info.Cause, info.Heuristic
	}
	byHand := tx.applicationEndError()
	if why != nil && !errors.Is(why, ErrEndedByApplication) {
		byHand = fmt.Errorf("%w; %w", byHand, why)
	}
	return withCause(e, byHand)
}

// rolledBack is the error of a rollback: see [Outcome.rolledBack].
func (tx *Tx) rolledBack(op string, o Outcome) error {
	o.State = RollingBack
	return tx.mergeOutcome(o).rolledBack(op, tx.begin.ID)
}

// mergeOutcome records what the coordinator has reported about a branch, of any application,
// that was ended by the application or has a heuristic outcome, and adds to o what it reported
// before.
func (tx *Tx) mergeOutcome(o Outcome) Outcome {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	o.EndedByApplication = o.EndedByApplication || tx.coordinatorOutcome.EndedByApplication
	o.Heuristic = cmp.Or(o.Heuristic, tx.coordinatorOutcome.Heuristic)
	o.Cause = cmp.Or(o.Cause, tx.coordinatorOutcome.Cause)
	tx.coordinatorOutcome = o
	return o
}

// rolledBack is the error of a rollback: [ErrRolledBack], unless a branch was ended by the
// application or has a heuristic outcome.
func (o Outcome) rolledBack(op string, id ID) *Error {
	e := &Error{Op: op, ID: id, State: o.State, Cause: o.Cause, Heuristic: o.Heuristic, Err: ErrRolledBack}
	switch {
	case o.EndedByApplication:
		e.Err = ErrEndedByApplication
	case o.Heuristic != 0:
		e.Err = ErrHeuristic
	}
	return e
}

// isRolledBack reports whether the coordinator has answered that the transaction is rolled
// back, whether or not something of it may be applied.
func isRolledBack(err error) bool {
	o := outcomeOf(err)
	return errors.Is(err, ErrRolledBack) || o.EndedByApplication || o.Heuristic != 0 && o.State.Decided() && !o.State.Commits()
}

// outcomeOf is the outcome that an error reports of a transaction that is rolled back. An error
// that came over the network does not say which heuristic outcome it is.
func outcomeOf(err error) (o Outcome) {
	o.EndedByApplication = errors.Is(err, ErrEndedByApplication)
	if e := (*Error)(nil); errors.As(err, &e) {
		o.State, o.Cause, o.Heuristic = e.State, e.Cause, e.Heuristic
	}
	if o.Heuristic == 0 && errors.Is(err, ErrHeuristic) {
		o.Heuristic = HeuristicHazard
	}
	return o
}
