package txn

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// Commit prepares the resources, asks for the decision, commits the resources and reports them.
// The resources prepare concurrently, and commit concurrently. Nil means: decided to commit,
// durably; the coordinator completes any branch that its resource cannot finish. With
// [Options.ReturnOnDecision] the resources commit after Commit has returned. A transaction
// with one branch is committed in one phase where that can be proved afterwards; see
// [OnePhaseCommitter].
// Nothing prepares before the coordinator has begun the transaction and has its branches: when
// it refuses that, the error is [ErrRolledBack], with the refusal in the chain.
//
// An error that is [ErrRolledBack] means that surely nothing was applied; [ErrVotedNo] and
// [ErrTimedOut] say why. [ErrInDoubt] means that the answer was lost: ask the manager with the
// id. [ErrHeuristic]: a branch ended, or may have ended, otherwise than decided.
// [ErrEndedByApplication]: statements of this application, or of another one that takes part,
// had ended a branch; the others are rolled back. [ErrNotActive]: the transaction had been
// ended before. [ErrManaged]: another application began it, and commits.
func (tx *Tx) Commit(ctx context.Context) error {
	if tx.attached {
		return &Error{Op: "commit", ID: tx.begin.ID, Err: ErrManaged, Detail: "another application began it; hand your votes in with Prepare, and let that one commit"}
	}
	enrollments, first := tx.stopEnlisting()
	if !first {
		return tx.notActive("commit")
	}
	return tx.commit(ctx, ctx, enrollments)
}

// commit takes the votes under the context of the work, which ends at the transaction's
// deadline, and the decision under the caller's: only the coordinator knows whether a decision
// came in time.
func (tx *Tx) commit(ctx, work context.Context, enrollments []*enrollment) error {
	if en := tx.onePhaseCandidate(work, enrollments); en != nil {
		if done, err := tx.onePhase(ctx, work, en); done {
			return err
		}
	}
	if done, err := tx.lastDecides(ctx, work, enrollments); done {
		return err
	}
	votes, err := tx.prepare(ctx, work, enrollments)
	if err != nil {
		return err
	}
	if len(enrollments) == 0 && !tx.announced(ctx) { // its id was not asked for either
		tx.setDecision(Committing)
		return nil
	}
	decision, cancel := tx.decisionContext(ctx)
	defer cancel()
	_, err = tx.m.Commit(decision, tx.begin.ID, CommitRequest{Votes: votes.Votes, ClientCompletes: votes.ClientCompletes})
	switch {
	case err == nil:
		tx.setDecision(Committing) // the caller may look at once
		tx.afterDecision(false, func() { tx.reportCompletion(ctx, tx.completeResources(ctx, Committing)) })
		return nil
	case isRolledBack(err):
		return tx.followRollback(ctx, err)
	case isRefused(err), errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrInDoubt):
		return tx.abortAfterVotes(ctx, err)
	}
	return tx.releaseInDoubt(err)
}

// afterDecision commits and reports the resources, also when the caller's context has ended. The caller does not wait for that
// with [Options.ReturnOnDecision], unless nothing is left but the report.
func (tx *Tx) afterDecision(nothingLeft bool, complete func()) {
	if tx.returnOnDecision && !nothingLeft {
		go complete()
	} else {
		complete()
	}
}

// followRollback completes the resources after the coordinator has answered that the
// transaction is rolled back.
func (tx *Tx) followRollback(ctx context.Context, answer error) error {
	reports := tx.completeResources(ctx, RollingBack)
	if tx.applicationEndError() != nil {
		return tx.reportEndedByApplication(ctx, "commit", Votes{}, reports, answer)
	}
	tx.reportCompletion(ctx, reports)
	tx.mergeOutcome(outcomeOf(answer)) // for Run, if the function ignores the answer
	return answer
}

// decisionContext gives the coordinator the time that it takes itself when it has to ask other
// participants for their votes.
func (tx *Tx) decisionContext(ctx context.Context) (context.Context, context.CancelFunc) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if !tx.untrackedBranches {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, tx.work.Granted+phaseTwoTimeout)
}

// prepare takes the votes. When one of them is missing or no, or the deadline has passed, the
// transaction is rolled back, and the error says so.
func (tx *Tx) prepare(ctx, work context.Context, enrollments []*enrollment) (Votes, error) {
	err := tx.rollbackOnly()
	var no Votes
	if err == nil {
		err = waitAllOpened(work, enrollments)
	}
	if err == nil {
		err = tx.announcer.await(work) // what is prepared, the coordinator knows
	}
	if err == nil {
		inParallel(enrollments, func(en *enrollment) { en.prepare(work) })
		no, err = checkVotes(enrollments)
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		return yesVotes(enrollments), nil
	}
	return Votes{}, tx.abort(ctx, "commit", tx.timedOut(work), no, err)
}

// prepare takes the vote of the resource, unless it has voted. Without a resource the coordinator knows whether the branch was
// enlisted, and then misses its vote.
func (en *enrollment) prepare(ctx context.Context) {
	if en.resource == nil || en.vote != 0 {
		return
	}
	en.vote, en.prepareErr = en.resource.Prepare(ctx)
	if en.vote == VoteEndedByApplication && !errors.Is(en.prepareErr, ErrEndedByApplication) {
		en.prepareErr = errors.Join(ErrEndedByApplication, en.prepareErr)
	}
	en.noteEndedByApplication(en.prepareErr)
}

// waitAllOpened waits until no resource is being opened any more.
func waitAllOpened(ctx context.Context, enrollments []*enrollment) error {
	for _, en := range enrollments {
		if err := en.waitOpened(ctx); err != nil {
			return fmt.Errorf("%s is still being opened: %w", en.participant, err)
		}
	}
	return nil
}

// checkVotes checks that all votes are yes. The error is about the first resource that did not
// vote yes; no holds the votes that are surely no.
func checkVotes(enrollments []*enrollment) (no Votes, err error) {
	for _, en := range enrollments {
		fault := en.prepareErr
		switch {
		case en.resource == nil, fault == nil && (en.vote == VotePrepared || en.vote == VoteReadOnly):
			continue
		case fault == nil:
			fault = fmt.Errorf("voted %v", en.vote)
		}
		if err == nil {
			err = fmt.Errorf("%s: %w", en.participant, fault)
		}
		if en.vote == VoteNo {
			no.Votes = append(no.Votes, BranchVote{en.branch.ID, VoteNo})
		}
	}
	return no, err
}

// yesVotes are the votes of resources that all voted yes.
func yesVotes(enrollments []*enrollment) (b Votes) {
	for _, en := range enrollments {
		if en.resource != nil {
			b.ClientCompletes = b.ClientCompletes || en.vote == VotePrepared
			b.Votes = append(b.Votes, BranchVote{Branch: en.branch.ID, Vote: en.vote})
		}
	}
	return b
}

// abort ends a transaction of which no vote was sent: no other client can commit it, so the
// resources need not wait for the coordinator. timeout says that its deadline has passed here.
func (tx *Tx) abort(ctx context.Context, op string, timeout bool, no Votes, why error) error {
	reports := tx.completeResources(ctx, RollingBack)
	if tx.applicationEndError() != nil {
		return tx.reportEndedByApplication(ctx, op, no, reports, why)
	}
	if timeout && !tx.announced(ctx) {
		return withCause(tx.rolledBack(op, Outcome{Cause: CauseTimeout}), why)
	}
	if timeout {
		// The coordinator times the transaction out by itself, and records the cause, unless
		// another client has extended or committed it.
		switch out, err := tx.awaitTimeout(ctx); {
		case err != nil && !tx.othersMayTakePart():
			return withCause(tx.rolledBack(op, Outcome{Cause: CauseTimeout}), why)
		case out.State.Decided() && !out.State.Commits():
			return withCause(tx.rolledBack(op, out), why)
		}
	}
	no.Reason = why.Error()
	out, err := tx.reportRollback(ctx, no, reports)
	return tx.abortError(op, out, err, why)
}

// abortError is the error of a transaction whose resources have rolled back without a vote
// having been sent. err is why the rollback could not be reported to the coordinator, or why
// the coordinator refused it; why may be nil.
func (tx *Tx) abortError(op string, out Outcome, err, why error) error {
	end := tx.rolledBack(op, out) // with the cause that the coordinator has recorded; none when it was not reached
	switch {
	case errors.Is(err, ErrConflict), errors.Is(err, ErrInvalid): // the report contradicts a decision, or the vote of another resource
		end = fmt.Errorf("%w: although the sessions have rolled back", err)
	case err != nil && tx.othersMayTakePart():
		end = &Error{Op: op, ID: tx.begin.ID, Err: ErrInDoubt, Detail: "the sessions have rolled back, but the coordinator was not reached, which knows what the others who take part have done"}
		why = errors.Join(why, err)
	}
	if why == nil {
		return end
	}
	return withCause(end, why)
}

// othersMayTakePart reports whether other applications may take part: only the coordinator
// knows what they have committed, or ended by their own statements.
func (tx *Tx) othersMayTakePart() bool {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	return tx.multiClient
}

// awaitTimeout waits for the coordinator to time the transaction out, too. The outcome is not
// decided when it does not, because another client has extended the transaction.
func (tx *Tx) awaitTimeout(ctx context.Context) (Outcome, error) {
	ctx, cancel := detachedContext(ctx)
	defer cancel()
	i, err := tx.m.Get(ctx, tx.begin.ID)
	if err == nil && !i.State.Decided() && time.Duration(i.ExpiresIn) <= maxTimeoutLag {
		soon, cancel := context.WithTimeout(ctx, 2*maxTimeoutLag)
		defer cancel()
		if i, err = tx.m.Wait(soon, tx.begin.ID, UntilDecided); i.State != 0 {
			err = nil // it may be undecided still
		}
	}
	return i.Outcome(), err
}

// abortAfterVotes rolls back after the coordinator refused the call, or could not take it. It
// may have seen the votes, so its decision comes before the resources act.
func (tx *Tx) abortAfterVotes(ctx context.Context, why error) error {
	out, err := tx.reportRollback(ctx, Votes{Reason: why.Error()}, nil)
	if err != nil {
		return tx.releaseInDoubt(fmt.Errorf("%w; and then: %w", why, err))
	}
	reports := tx.completeResources(ctx, RollingBack)
	if tx.applicationEndError() != nil {
		return tx.reportEndedByApplication(ctx, "commit", Votes{}, reports, why)
	}
	tx.reportCompletion(ctx, reports)
	return withCause(tx.rolledBack("commit", out), why)
}

// releaseInDoubt leaves every branch as it is, for the coordinator to finish.
func (tx *Tx) releaseInDoubt(why error) error {
	for _, en := range tx.setDecision(0) {
		if !en.decided {
			en.resource.Release()
		}
	}
	return tx.inDoubtError(why)
}

func (tx *Tx) inDoubtError(why error) error {
	if errors.Is(why, ErrInDoubt) && !isAny(why, retrySafeErrs) {
		return why
	}
	return withCause(&Error{Op: "commit", ID: tx.begin.ID, Err: ErrInDoubt}, why)
}

// completeResources drives the resources to the decision concurrently, and releases them. It
// returns reports of those that completed; the others are left to the coordinator.
func (tx *Tx) completeResources(ctx context.Context, to State) (reports []CompletionReport) {
	ctx, cancel := detachedContext(ctx)
	defer cancel()
	enrollments := tx.setDecision(to)
	inParallel(enrollments, func(en *enrollment) {
		switch {
		case en.decided:
			return // and was released
		case to == RollingBack && en.rollback(ctx):
			en.outcome = BranchRolledBack
		case to == Committing && en.vote == VotePrepared && en.resource.Commit(ctx) == nil:
			en.outcome = BranchCommitted
		}
		en.resource.Release()
	})
	for _, en := range enrollments {
		if en.outcome != 0 {
			reports = append(reports, CompletionReport{Branch: en.branch.ID, State: en.outcome})
		}
	}
	return reports
}

// inParallel calls do for every enrollment concurrently, and waits for all.
func inParallel(enrollments []*enrollment, do func(*enrollment)) {
	if len(enrollments) == 0 {
		return
	}
	var others sync.WaitGroup
	for _, en := range enrollments[1:] {
		others.Go(func() { do(en) })
	}
	do(enrollments[0])
	others.Wait()
}

// reportRollback asks the coordinator to roll back, also when the caller's context has ended:
// by the votes that are no, or else on request.
func (tx *Tx) reportRollback(ctx context.Context, no Votes, reports []CompletionReport) (out Outcome, err error) {
	ctx, cancel := detachedContext(ctx)
	defer cancel()
	no.Reason = truncateReason(no.Reason)
	if !tx.announced(ctx) {
		return tx.mergeOutcome(Outcome{Cause: CauseClient}), nil
	}
	if decider := tx.announcer.appointed(); decider != 0 && tx.applicationEndError() == nil {
		no.Votes, reports = noOf(decider, reports)
	}
	if len(no.Votes) > 0 {
		out, err = tx.m.Vote(ctx, tx.begin.ID, no)
	} else {
		out, err = tx.m.Rollback(ctx, tx.begin.ID, no.Reason)
	}
	if isRolledBack(err) {
		out, err = outcomeOf(err), nil
	}
	tx.mu.Lock()
	tx.reportErr = err // for Run, if the function ignores it
	tx.mu.Unlock()
	if err != nil {
		return out, err
	}
	tx.reportCompletion(ctx, reports)
	return tx.mergeOutcome(out), nil
}

// noOf is the vote of a branch that decides, when it has surely rolled back; without it the coordinator has to find that out.
// The vote is its report, too: left are the other ones.
func noOf(decider BranchID, reports []CompletionReport) (no []BranchVote, left []CompletionReport) {
	for _, r := range reports {
		if r.Branch == decider {
			no = append(no, BranchVote{decider, VoteNo})
		} else {
			left = append(left, r)
		}
	}
	return no, left
}

// announced reports whether the coordinator has to be told of the end of the transaction. It need
// not when it was not begun: without a branch, or because the begin failed.
func (tx *Tx) announced(ctx context.Context) bool {
	ctx, cancel := detachedContext(ctx)
	defer cancel()
	return tx.announcer.finish(ctx)
}

// reportCompletion reports the finished branches to the coordinator, without waiting for the
// answer. When that fails, the coordinator finds out by itself: the decision stands, so the
// error is not the caller's.
func (tx *Tx) reportCompletion(ctx context.Context, reports []CompletionReport) {
	if len(reports) == 0 {
		return
	}
	ctx, cancel := detachedContext(ctx)
	defer cancel()
	_ = tx.m.ReportCompletion(AllowDelay(ctx), tx.begin.ID, reports...)
}

// isRefused reports whether an error of Commit says that the coordinator examined the call and
// refused it.
func isRefused(err error) bool {
	for _, refusal := range []error{ErrInvalid, ErrNotFound, ErrConflict, ErrNotActive, ErrDenied} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}

// detachedContext outlives its caller's context, but not for ever: what has begun to end is
// ended, and no locks are held because the caller has gone away.
func detachedContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), phaseTwoTimeout)
}

// truncateReason shortens a reason to what the log accepts.
func truncateReason(reason string) string {
	if len(reason) <= MaxReason {
		return reason
	}
	return strings.ToValidUTF8(reason[:MaxReason-3], "") + "..."
}
