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
// lost: ask the manager with the id. [ErrHazard]: a branch ended, or may have ended,
// otherwise than decided. [ErrEndedByHand]: statements of
// this application, or of another one that takes part, had ended a branch; the others
// are rolled back. [ErrNotActive]: the transaction had been
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
	case undone(err):
		return tx.followBack(ctx, err)
	case nothingChanged(err), errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrInDoubt):
		return tx.withdraw(ctx, err)
	}
	return tx.doubt(err)
}

// followBack brings the sessions to a rollback that the coordinator has answered.
func (tx *Tx) followBack(ctx context.Context, answer error) error {
	acks := tx.drive(ctx, RollingBack)
	if tx.byHand() != nil {
		return tx.endedByHand(ctx, "commit", Ballot{}, acks, answer)
	}
	tx.report(ctx, acks)
	tx.heard(outcomeOf(answer)) // for Run, if the function ignores the answer
	return answer
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
				if mb.vote == VoteEndedByHand && !errors.Is(mb.fault, ErrEndedByHand) {
					mb.fault = errors.Join(ErrEndedByHand, mb.fault)
				}
				mb.heed(mb.fault)
			}
		})
		no, err = count(members)
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		return votes(members), nil
	}
	return Ballot{}, tx.refuse(ctx, "commit", tx.timedOut(work), no, err)
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
// it, so the sessions need not wait for the coordinator. timeout says that its time
// is over here.
func (tx *Tx) refuse(ctx context.Context, op string, timeout bool, no Ballot, why error) error {
	acks := tx.drive(ctx, RollingBack)
	if tx.byHand() != nil {
		return tx.endedByHand(ctx, op, no, acks, why)
	}
	if timeout {
		// The coordinator comes to the same end by itself, and records the cause; unless
		// somebody else has extended the transaction, or has committed it.
		switch out, err := tx.timeout(ctx); {
		case err != nil && !tx.others():
			return because(tx.rolledBack(op, Outcome{Cause: CauseTimeout}), why)
		case out.State.Decided() && !out.State.Commits():
			return because(tx.rolledBack(op, out), why)
		}
	}
	no.Reason = why.Error()
	out, err := tx.tell(ctx, no, acks)
	return tx.refused(op, out, err, why)
}

// refused is the error of a transaction whose sessions have rolled back, without a vote
// given away. err is why the coordinator was not told, or what it said against it; why may
// be nil.
func (tx *Tx) refused(op string, out Outcome, err, why error) error {
	end := tx.rolledBack(op, out) // with the cause that the coordinator has recorded; none when it was not reached
	switch {
	case errors.Is(err, ErrConflict), errors.Is(err, ErrInvalid): // it contradicts a decision, or what another session voted
		end = fmt.Errorf("%w: although the sessions have rolled back", err)
	case err != nil && tx.others():
		end = &Error{Op: op, ID: tx.ID(), Err: ErrInDoubt, Detail: "the sessions have rolled back, but the coordinator was not reached, which knows what the others who take part have done"}
		why = errors.Join(why, err)
	}
	if why == nil {
		return end
	}
	return because(end, why)
}

// others reports whether somebody else may take part: what these have committed, or ended
// by statements of their own, only the coordinator knows.
func (tx *Tx) others() bool {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	return tx.guests
}

// timeout waits for the coordinator to find, too, that the transaction's time is over. The
// outcome is not decided when it does not, since somebody else has extended it.
func (tx *Tx) timeout(ctx context.Context) (Outcome, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	i, err := tx.m.Get(ctx, tx.ID())
	if err == nil && !i.State.Decided() && time.Duration(i.ExpiresIn) <= lateness {
		soon, cancel := context.WithTimeout(ctx, 2*lateness)
		defer cancel()
		if i, err = tx.m.Wait(soon, tx.ID(), DecidedGoal); i.State != 0 {
			err = nil // it may be undecided still
		}
	}
	return i.outcome(), err
}

// withdraw rolls back after the coordinator refused the call, or could not take
// it. It may have seen the votes, so its decision comes before the sessions act.
func (tx *Tx) withdraw(ctx context.Context, why error) error {
	out, err := tx.tell(ctx, Ballot{Reason: why.Error()}, nil)
	if err != nil {
		return tx.doubt(fmt.Errorf("%w; and then: %w", why, err))
	}
	acks := tx.drive(ctx, RollingBack)
	if tx.byHand() != nil {
		return tx.endedByHand(ctx, "commit", Ballot{}, acks, why)
	}
	tx.report(ctx, acks)
	return because(tx.rolledBack("commit", out), why)
}

// doubt leaves everything as it is, for the coordinator to finish.
func (tx *Tx) doubt(why error) error {
	for _, mb := range tx.settle(0) {
		mb.session.Release()
	}
	return tx.inDoubt(why)
}

func (tx *Tx) inDoubt(why error) error {
	if errors.Is(why, ErrInDoubt) && !isAny(why, permits) {
		return why
	}
	return because(&Error{Op: "commit", ID: tx.ID(), Err: ErrInDoubt}, why)
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
	if undone(err) {
		out, err = outcomeOf(err), nil
	}
	tx.mu.Lock()
	tx.untold = err // for Run, if the function ignores it
	tx.mu.Unlock()
	if err != nil {
		return out, err
	}
	tx.report(ctx, acks)
	return tx.heard(out), nil
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
