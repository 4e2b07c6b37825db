package txn

import (
	"context"
	"fmt"
)

// onePhaseCandidate is the only branch of the transaction, if its resource can commit it in one
// phase. The coordinator may still refuse: other applications may have branches.
func (tx *Tx) onePhaseCandidate(work context.Context, enrollments []*enrollment) *enrollment {
	tx.mu.Lock()
	alone := len(enrollments) == 1 && !tx.untrackedBranches && tx.rollbackCause == nil
	tx.mu.Unlock()
	if !alone || waitAllOpened(work, enrollments) != nil || work.Err() != nil {
		return nil
	}
	if isOnePhase(enrollments[0].resource) {
		return enrollments[0]
	}
	return nil
}

// onePhase commits the branch if it is appointed, and otherwise if the coordinator delegates the decision to it. done is
// false when the coordinator would not; then nothing has happened.
func (tx *Tx) onePhase(ctx, work context.Context, en *enrollment) (done bool, err error) {
	if tx.announcer.decide() {
		return true, tx.commitOnePhase(ctx, en, tx.announcer.report)
	}
	if err := tx.announcer.await(work); err != nil {
		return true, tx.abort(ctx, "commit", tx.timedOut(work), Votes{}, err)
	}
	_, err = tx.m.Delegate(ctx, tx.begin.ID, en.branch.ID)
	switch {
	case isRolledBack(err):
		return true, tx.followRollback(ctx, err)
	case err != nil && isRefused(err):
		return false, nil
	case err != nil || work.Err() != nil:
		// It may have been delegated. Its rollback is the end, either way.
		if err == nil {
			err = context.Cause(work)
		}
		return true, tx.rollbackSole(ctx, err)
	}
	return true, tx.commitOnePhase(ctx, en, func(ends ...CompletionReport) { tx.reportDecision(ctx, ends) })
}

// commitOnePhase makes the decision by committing the branch; the others, if there are any, are prepared, and follow it. It is
// not cancelled half way: a commit that is on its way to the participant may arrive.
func (tx *Tx) commitOnePhase(ctx context.Context, en *enrollment, report func(...CompletionReport)) error {
	alone := len(tx.setDecision(0)) == 1
	ctx, cancel := detachedContext(ctx)
	defer cancel()
	end, err := en.resource.(OnePhaseCommitter).CommitOnePhase(ctx)
	en.resource.Release()
	en.decided = true
	en.noteEndedByApplication(err)
	switch end {
	case BranchCommitted:
		en.outcome = end
		tx.setDecision(Committing) // the caller may look at once
		tx.afterDecision(alone, func() { report(tx.completeResources(ctx, Committing)...) })
		return nil
	case BranchRolledBack:
		en.outcome = end
		report(tx.completeResources(ctx, RollingBack)...)
		return withCause(tx.rolledBack("commit", Outcome{Cause: CauseVoteNo}), fmt.Errorf("%s: %w", en.participant, err))
	}
	if alone && tx.applicationEndError() != nil {
		return tx.reportEndedByApplication(ctx, "commit", Votes{}, nil, nil)
	}
	return tx.findOut(ctx, fmt.Errorf("%s: %w", en.participant, err))
}

// findOut has the coordinator find out how the branch ended that decides, and follows that.
func (tx *Tx) findOut(ctx context.Context, why error) error {
	defer tx.announcer.close()
	if tx.announcer.appointed() != 0 && tx.announcer.begin(ctx, false) == nil {
		_, _ = tx.m.Rollback(ctx, tx.begin.ID, "the answer to its one-phase commit was lost") // has its end found out now, not at the deadline
	}
	info, err := tx.m.Wait(ctx, tx.begin.ID, UntilDecided)
	switch {
	case err != nil || !info.State.Decided():
		return tx.releaseInDoubt(why)
	case info.State.Commits():
		tx.reportCompletion(ctx, tx.completeResources(ctx, Committing))
	default:
		tx.reportCompletion(ctx, tx.completeResources(ctx, RollingBack))
	}
	switch {
	case tx.applicationEndError() != nil: // it, or the commit whose answer was lost, ended the branch; the others have followed
		if info.State.Commits() {
			return tx.endedByApplicationError(ctx, "commit", why)
		}
		return tx.reportEndedByApplication(ctx, "commit", Votes{}, nil, why)
	case info.Heuristic != 0:
		return withCause(&Error{Op: "commit", ID: tx.begin.ID, State: info.State, Err: ErrHeuristic, Detail: "the end of the branch that decides is unknown; look at the data"}, why)
	case info.State.Commits():
		return nil
	}
	return withCause(tx.rolledBack("commit", info.Outcome()), why)
}

// reportDecision reports the end of the branch to which the decision was delegated. It waits for
// the answer, although its caller knows the outcome: others learn it from the coordinator, which
// asks the participant only after the deadline if the report is lost.
func (tx *Tx) reportDecision(ctx context.Context, ends []CompletionReport) {
	ctx, cancel := detachedContext(ctx)
	defer cancel()
	_ = tx.m.ReportCompletion(ctx, tx.begin.ID, ends...)
}

// rollbackSole rolls the only branch back, and with it the transaction, whether the decision
// has been delegated or not.
func (tx *Tx) rollbackSole(ctx context.Context, why error) error {
	reports := tx.completeResources(ctx, RollingBack)
	if tx.applicationEndError() != nil {
		return tx.reportEndedByApplication(ctx, "commit", Votes{}, reports, why)
	}
	if len(reports) == 0 {
		tx.setDecision(0)
		return tx.inDoubtError(why)
	}
	ctx, cancel := detachedContext(ctx)
	defer cancel()
	var out Outcome // as the coordinator has recorded it
	err := tx.m.ReportCompletion(ctx, tx.begin.ID, reports...)
	if err == nil {
		info, _ := tx.m.Get(ctx, tx.begin.ID)
		out = info.Outcome()
	} else if out, err = tx.reportRollback(ctx, Votes{Reason: why.Error()}, reports); !tx.othersMayTakePart() {
		err = nil // it was not delegated; or the coordinator was not reached, and the deadline rolls it back
	}
	return tx.abortError("commit", out, err, why) // why may be in doubt; the rollback settles that
}
