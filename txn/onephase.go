package txn

import (
	"context"
	"errors"
	"fmt"
)

// sole is the only branch of the transaction, if its session can commit it in one
// phase. The coordinator has the last word: there may be branches of others.
func (tx *Tx) sole(work context.Context, members []*member) *member {
	tx.mu.Lock()
	alone := len(members) == 1 && !tx.shared && tx.doomed == nil
	tx.mu.Unlock()
	if !alone || waitFor(work, members) != nil || work.Err() != nil {
		return nil
	}
	if s, ok := members[0].session.(OnePhaser); ok && s.OnePhase() {
		return members[0]
	}
	return nil
}

// onePhase has the decision delegated to the branch, and commits it. done is false
// when the coordinator would not delegate; then nothing has happened.
func (tx *Tx) onePhase(ctx, work context.Context, mb *member) (done bool, err error) {
	_, err = tx.m.Delegate(ctx, tx.ID(), mb.branch.ID)
	switch {
	case errors.Is(err, ErrRolledBack):
		tx.report(ctx, tx.drive(ctx, RollingBack))
		return true, err
	case err != nil && nothingChanged(err):
		return false, nil
	case err != nil || work.Err() != nil:
		// Perhaps it was delegated. Its rollback is the end, either way.
		if err == nil {
			err = context.Cause(work)
		}
		return true, tx.giveUp(ctx, work, err)
	}
	return true, tx.commitAlone(ctx, mb)
}

// commitAlone makes the decision by doing what was decided. It is not called off
// half way: what is on its way to the participant may arrive.
func (tx *Tx) commitAlone(ctx context.Context, mb *member) error {
	tx.settle(Committing)
	ctx, cancel := detached(ctx)
	defer cancel()
	end, err := mb.session.(OnePhaser).CommitOnePhase(ctx)
	mb.session.Release()
	switch end {
	case BranchCommitted:
		tx.report(ctx, []Ack{{mb.branch.ID, end}})
		return nil
	case BranchRolledBack:
		tx.settle(RollingBack)
		tx.report(ctx, []Ack{{mb.branch.ID, end}})
		return fmt.Errorf("%w: %s: %w", tx.rolledBack("commit", CauseVoteNo), mb.participant, err)
	}
	tx.settle(0)
	err = fmt.Errorf("%s: %w", mb.participant, err)
	info, waited := tx.m.Wait(ctx, tx.ID(), DecidedGoal)
	switch {
	case waited == nil && info.Hazard != 0:
		return fmt.Errorf("%w: %w", &Error{Op: "commit", ID: tx.ID(), State: info.State, Err: ErrHazard, Detail: "nobody can know how its branch ended; look at the data"}, err)
	case waited == nil && info.State.Commits():
		tx.settle(Committing)
		return nil
	case waited == nil && info.State.Decided():
		tx.settle(RollingBack)
		return fmt.Errorf("%w: %w", tx.rolledBack("commit", info.Cause), err)
	}
	return tx.inDoubt(err)
}

// giveUp rolls the only branch back, and with it the transaction, whether the
// decision has been delegated or not.
func (tx *Tx) giveUp(ctx, work context.Context, why error) error {
	acks := tx.drive(ctx, RollingBack)
	if len(acks) == 0 {
		tx.settle(0)
		return tx.inDoubt(why)
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	if err := tx.m.Done(ctx, tx.ID(), acks...); err != nil {
		_, _ = tx.tell(ctx, Ballot{Reason: why.Error()}, acks) // it was not delegated; or nobody is there, and the deadline does it
	}
	if errors.Is(why, ErrInDoubt) {
		why = errors.New(why.Error()) // it was, and is not any more
	}
	cause := CauseClient
	if tx.timedOut(work) {
		cause = CauseTimeout
	}
	return fmt.Errorf("%w: %w", tx.rolledBack("commit", cause), why)
}
