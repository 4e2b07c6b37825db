package txn

import (
	"context"
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
	case undone(err):
		return true, tx.followBack(ctx, err)
	case err != nil && nothingChanged(err):
		return false, nil
	case err != nil || work.Err() != nil:
		// Perhaps it was delegated. Its rollback is the end, either way.
		if err == nil {
			err = context.Cause(work)
		}
		return true, tx.giveUp(ctx, err)
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
	mb.heed(err)
	switch end {
	case BranchCommitted:
		tx.report(ctx, []Ack{{mb.branch.ID, end}})
		return nil
	case BranchRolledBack:
		tx.settle(RollingBack)
		tx.report(ctx, []Ack{{mb.branch.ID, end}})
		return because(tx.rolledBack("commit", Outcome{Cause: CauseVoteNo}), fmt.Errorf("%s: %w", mb.participant, err))
	}
	tx.settle(0)
	if tx.byHand() != nil {
		return tx.endedByHand(ctx, "commit", Ballot{}, nil, nil)
	}
	err = fmt.Errorf("%s: %w", mb.participant, err)
	info, waited := tx.m.Wait(ctx, tx.ID(), DecidedGoal)
	switch {
	case waited == nil && info.Hazard != 0:
		return because(&Error{Op: "commit", ID: tx.ID(), State: info.State, Err: ErrHazard, Detail: "nobody can know how its branch ended; look at the data"}, err)
	case waited == nil && info.State.Commits():
		tx.settle(Committing)
		return nil
	case waited == nil && info.State.Decided():
		tx.settle(RollingBack)
		return because(tx.rolledBack("commit", info.outcome()), err)
	}
	return tx.inDoubt(err)
}

// giveUp rolls the only branch back, and with it the transaction, whether the
// decision has been delegated or not.
func (tx *Tx) giveUp(ctx context.Context, why error) error {
	acks := tx.drive(ctx, RollingBack)
	if tx.byHand() != nil {
		return tx.endedByHand(ctx, "commit", Ballot{}, acks, why)
	}
	if len(acks) == 0 {
		tx.settle(0)
		return tx.inDoubt(why)
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	var out Outcome // as the coordinator has recorded it
	err := tx.m.Done(ctx, tx.ID(), acks...)
	if err == nil {
		info, _ := tx.m.Get(ctx, tx.ID())
		out = info.outcome()
	} else if out, err = tx.tell(ctx, Ballot{Reason: why.Error()}, acks); !tx.others() {
		err = nil // it was not delegated; or the coordinator is not reached, and the deadline does it
	}
	return tx.refused("commit", out, err, why) // in doubt as why may be, it is so no more
}
