package txn

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// Commit prepares the sessions, asks for the decision, commits the sessions and
// reports them. The sessions prepare at the same time, and so do they commit. Nil
// means: decided to commit, durably; what the sessions cannot finish the
// coordinator does. A transaction with one branch is committed in one phase where
// that can be proved afterwards; see [OnePhaser].
//
// An error that is [ErrRolledBack] means that surely nothing was applied;
// [ErrVotedNo] and [ErrTimedOut] say why. [ErrInDoubt] means that the answer was
// lost: ask the manager with the id. [ErrNotActive]: the transaction had been
// ended before. [ErrManaged]: another application began it, and commits.
func (tx *Tx) Commit(ctx context.Context) error {
	if tx.attached {
		return &Error{Op: "commit", ID: tx.ID(), Err: ErrManaged, Detail: "another application began it; hand your votes in with Prepare, and let that one commit"}
	}
	members, first := tx.close()
	if !first {
		return tx.notActive("commit")
	}
	return tx.commit(ctx, ctx, members)
}

// commit takes the votes under the context of the work, which ends with the
// transaction's time, and the decision under the caller's: only the coordinator
// knows whether a decision came in time.
func (tx *Tx) commit(ctx, work context.Context, members []*member) error {
	if mb := tx.sole(work, members); mb != nil {
		if done, err := tx.onePhase(ctx, work, mb); done {
			return err
		}
	}
	ballot, err := tx.prepare(ctx, work, members)
	if err != nil {
		return err
	}
	decision, cancel := tx.patience(ctx)
	defer cancel()
	_, err = tx.m.Commit(decision, tx.ID(), Commitment{Votes: ballot.Votes, OwnPhaseTwo: ballot.OwnPhaseTwo})
	switch {
	case err == nil:
		tx.report(ctx, tx.drive(ctx, Committing))
		return nil
	case errors.Is(err, ErrRolledBack):
		tx.report(ctx, tx.drive(ctx, RollingBack))
		return err
	case nothingChanged(err), errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrInDoubt):
		return tx.withdraw(ctx, err)
	}
	return tx.doubt(err)
}

// patience gives the coordinator the time that it has itself, when it has to ask
// others for their votes.
func (tx *Tx) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if !tx.shared {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, tx.granted+phaseTwo)
}

// prepare takes the votes. When one of them is missing or no, or the time is over,
// the transaction is rolled back, and the error says so.
func (tx *Tx) prepare(ctx, work context.Context, members []*member) (Ballot, error) {
	err := tx.fate()
	var no Ballot
	if err == nil {
		err = waitFor(work, members)
	}
	if err == nil {
		atOnce(members, func(mb *member) {
			if mb.session != nil { // otherwise the coordinator knows whether it was enlisted, and then misses its vote
				mb.vote, mb.fault = mb.session.Prepare(work)
			}
		})
		no, err = count(members)
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	switch {
	case err == nil:
		return votes(members), nil
	case tx.timedOut(work):
		return Ballot{}, tx.refuse(ctx, "commit", CauseTimeout, no, err)
	case ctx.Err() != nil, tx.fate() != nil:
		return Ballot{}, tx.refuse(ctx, "commit", CauseClient, no, err)
	}
	return Ballot{}, tx.refuse(ctx, "commit", CauseVoteNo, no, err)
}

// waitFor waits until no session is being opened any more.
func waitFor(ctx context.Context, members []*member) error {
	for _, mb := range members {
		if err := mb.wait(ctx); err != nil {
			return fmt.Errorf("%s is still being opened: %w", mb.participant, err)
		}
	}
	return nil
}

// count looks whether all votes are a yes. The error is about the first session
// that did not vote yes; no are the votes that are surely a no.
func count(members []*member) (no Ballot, err error) {
	for _, mb := range members {
		fault := mb.fault
		switch {
		case mb.session == nil, fault == nil && (mb.vote == VotePrepared || mb.vote == VoteReadOnly):
			continue
		case fault == nil:
			fault = fmt.Errorf("voted %v", mb.vote)
		}
		if err == nil {
			err = fmt.Errorf("%s: %w", mb.participant, fault)
		}
		if mb.vote == VoteNo {
			no.Votes = append(no.Votes, BranchVote{mb.branch.ID, VoteNo})
		}
	}
	return no, err
}

// votes are those of sessions that all voted yes.
func votes(members []*member) (b Ballot) {
	for _, mb := range members {
		if mb.session != nil {
			b.OwnPhaseTwo = b.OwnPhaseTwo || mb.vote == VotePrepared
			b.Votes = append(b.Votes, BranchVote{Branch: mb.branch.ID, Vote: mb.vote})
		}
	}
	return b
}

// refuse ends a transaction of which no vote was given away: nobody can commit
// it, so the sessions need not wait for the coordinator.
func (tx *Tx) refuse(ctx context.Context, op string, c Cause, no Ballot, why error) error {
	acks := tx.drive(ctx, RollingBack)
	if c == CauseTimeout && !tx.hasMoreTime(ctx) {
		// The coordinator comes to the same end by itself, and records the cause.
		return because(tx.rolledBack(op, c), why)
	}
	no.Reason = why.Error()
	out, err := tx.tell(ctx, no, acks)
	switch {
	case errors.Is(err, ErrConflict), errors.Is(err, ErrInvalid): // it contradicts a decision, or what another session voted
		return fmt.Errorf("%w: although the sessions have rolled back: %w", err, why)
	case err != nil && tx.attached && len(acks) == 0:
		// No branch of ours is there that would be missed: who began it may commit.
		return fmt.Errorf("%w; and the transaction could not be rolled back: %w", why, err)
	}
	if out.Cause == CauseTimeout || out.Cause == CauseSessionExpired {
		c = out.Cause // it was over before anything failed here
	}
	return because(tx.rolledBack(op, c), why)
}

// because is a rollback with what led there. A call on the way may have been in doubt; the transaction is not.
func because(end, why error) error {
	if errors.Is(why, ErrInDoubt) {
		why = &settledError{why}
	}
	return fmt.Errorf("%w: %w", end, why)
}

// settledError is all that an error is but [ErrInDoubt].
type settledError struct{ why error }

func (e *settledError) Error() string { return e.why.Error() }

func (e *settledError) Is(target error) bool { return target != ErrInDoubt && errors.Is(e.why, target) }

func (e *settledError) As(target any) bool { return errors.As(e.why, target) }

// hasMoreTime reports whether the coordinator would keep the transaction open
// although its time is over here: somebody else has extended it.
func (tx *Tx) hasMoreTime(ctx context.Context) bool {
	ctx, cancel := detached(ctx)
	defer cancel()
	i, err := tx.m.Get(ctx, tx.ID())
	return err == nil && !i.State.Decided() && time.Duration(i.ExpiresIn) > lateness
}

// withdraw rolls back after the coordinator refused the call, or could not take
// it. It may have seen the votes, so its decision comes before the sessions act.
func (tx *Tx) withdraw(ctx context.Context, why error) error {
	out, err := tx.tell(ctx, Ballot{Reason: why.Error()}, nil)
	if err != nil {
		return tx.doubt(fmt.Errorf("%w; and then: %w", why, err))
	}
	tx.report(ctx, tx.drive(ctx, RollingBack))
	return because(tx.rolledBack("commit", out.Cause), why)
}

// doubt leaves everything as it is, for the coordinator to finish.
func (tx *Tx) doubt(why error) error {
	for _, mb := range tx.settle(0) {
		mb.session.Release()
	}
	return tx.inDoubt(why)
}

func (tx *Tx) inDoubt(why error) error {
	if errors.Is(why, ErrInDoubt) {
		return why
	}
	return fmt.Errorf("%w: %w", &Error{Op: "commit", ID: tx.ID(), Err: ErrInDoubt}, why)
}

// drive brings the sessions to the decision, all at once, and releases them. It
// gives those that got there; the others are the coordinator's.
func (tx *Tx) drive(ctx context.Context, to State) (acks []Ack) {
	ctx, cancel := detached(ctx)
	defer cancel()
	members := tx.settle(to)
	atOnce(members, func(mb *member) {
		switch {
		case to == RollingBack && mb.rollback(ctx):
			mb.end = BranchRolledBack
		case to == Committing && mb.vote == VotePrepared && mb.session.Commit(ctx) == nil:
			mb.end = BranchCommitted
		}
		mb.session.Release()
	})
	for _, mb := range members {
		if mb.end != 0 {
			acks = append(acks, Ack{Branch: mb.branch.ID, State: mb.end})
		}
	}
	return acks
}

// atOnce does something to every member, at the same time, and waits for all.
func atOnce(members []*member, do func(*member)) {
	if len(members) == 0 {
		return
	}
	var others sync.WaitGroup
	for _, mb := range members[1:] {
		others.Go(func() { do(mb) })
	}
	do(members[0])
	others.Wait()
}

// tell asks the coordinator to roll back, whatever became of the caller: by the
// votes that are no, or else on request.
func (tx *Tx) tell(ctx context.Context, no Ballot, acks []Ack) (out Outcome, err error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	no.Reason = shorten(no.Reason)
	if len(no.Votes) > 0 {
		out, err = tx.m.Vote(ctx, tx.ID(), no)
	} else {
		out, err = tx.m.Rollback(ctx, tx.ID(), no.Reason)
	}
	if err != nil && !errors.Is(err, ErrRolledBack) {
		return out, err
	}
	tx.report(ctx, acks)
	return out, nil
}

// report tells the coordinator which branches are finished. When that fails it
// finds out by itself: the decision stands, so the error is not the caller's.
func (tx *Tx) report(ctx context.Context, acks []Ack) {
	if len(acks) == 0 {
		return
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	_ = tx.m.Done(ctx, tx.ID(), acks...)
}

// nothingChanged reports whether an error of Commit says that the coordinator
// looked at the call and refused it.
func nothingChanged(err error) bool {
	for _, refusal := range []error{ErrInvalid, ErrNotFound, ErrConflict, ErrNotActive, ErrDenied} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}

// detached outlives its caller, but not for ever: what has begun to end is
// ended, and locks are not held because somebody went away.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), phaseTwo)
}

// shorten keeps a reason within what the log takes.
func shorten(reason string) string {
	if len(reason) <= MaxReason {
		return reason
	}
	return strings.ToValidUTF8(reason[:MaxReason-3], "") + "..."
}
