package txn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Tx is one global transaction as the application that began it holds it. The
// work is done in sessions, one for each participant; see [Join].
//
// Safe for concurrent use, but a session is used by one goroutine at a time, as
// its participant says.
type Tx struct {
	m     Manager
	begun Begun

	mu      sync.Mutex // guards all below
	ended   bool       // Commit or Rollback was called: nobody joins any more
	end     State      // [Committing] or [RollingBack]; zero while not known
	members []*member  // in the order of joining

	// The time of the work; all nil without [Run].
	work   context.CancelCauseFunc // ends it
	timer  context.Context         // ends when it has to
	disarm func()                  // forgets timer
}

// phaseTwo bounds the application's own part of phase two. What takes longer is
// left to the coordinator.
const phaseTwo = 10 * time.Second

// lateness is how far behind the application the coordinator may be with a
// timeout before somebody has to tell it.
const lateness = time.Second

// Start begins a transaction. Whoever calls it sees to it that Commit or
// Rollback is called; [Run] does so by itself.
func Start(ctx context.Context, m Manager, o Options) (*Tx, error) {
	begun, err := m.Begin(ctx, o)
	if err != nil {
		return nil, err
	}
	return &Tx{m: m, begun: begun}, nil
}

// ID names the transaction.
func (tx *Tx) ID() ID { return tx.begun.ID }

// Timeout is what was granted: how long the transaction may stay undecided,
// counted from its begin. Extensions do not show in it.
func (tx *Tx) Timeout() time.Duration { return tx.begun.Timeout }

// Extend asks for a new timeout, counted from now. When it is granted, the
// context of [Run] ends no sooner than that. It never shortens. After an error
// the context keeps its time; the coordinator may have granted more.
//
// [ErrNotActive]: the transaction has been ended, or its time is over.
func (tx *Tx) Extend(ctx context.Context, timeout time.Duration) error {
	tx.mu.Lock()
	over := tx.ended || tx.timer != nil && tx.timer.Err() != nil
	tx.mu.Unlock()
	if over {
		return tx.notActive("extend")
	}
	if _, err := tx.m.Extend(ctx, tx.ID(), timeout); err != nil {
		return err
	}
	tx.mu.Lock()
	defer tx.mu.Unlock()
	tx.armLocked(timeout)
	return nil
}

// Commit prepares the sessions in the order of their joining, asks for the
// decision, commits the sessions and reports them. Nil means: decided to
// commit, durably; what the sessions cannot finish the coordinator does.
//
// An error that is [ErrRolledBack] means that surely nothing was applied;
// [ErrVotedNo] and [ErrTimedOut] say why. [ErrInDoubt] means that the answer was
// lost: ask the manager with the id. [ErrNotActive]: the transaction had been
// ended before.
func (tx *Tx) Commit(ctx context.Context) error {
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
	c, err := prepare(work, members)
	if err == nil {
		err = context.Cause(ctx)
	}
	switch {
	case err == nil:
	case tx.timedOut(work):
		return tx.refuse(ctx, "commit", CauseTimeout, err)
	case ctx.Err() != nil:
		return tx.refuse(ctx, "commit", CauseClient, err)
	default:
		return tx.refuse(ctx, "commit", CauseVoteNo, err)
	}
	_, err = tx.m.Commit(ctx, tx.ID(), c)
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

// prepare asks every session for its vote. The error says which one did not
// vote yes, and why.
func prepare(ctx context.Context, members []*member) (c Commitment, err error) {
	for _, mb := range members {
		if err := mb.wait(ctx); err != nil {
			return c, fmt.Errorf("%s is still being opened: %w", mb.participant, err)
		}
		if mb.session == nil {
			continue // the coordinator knows whether the branch was enlisted, and then misses its vote
		}
		mb.vote, err = mb.session.Prepare(ctx)
		switch {
		case err != nil:
			return c, fmt.Errorf("%s: %w", mb.participant, err)
		case mb.vote != VotePrepared && mb.vote != VoteReadOnly:
			return c, fmt.Errorf("%s: voted %v", mb.participant, mb.vote)
		}
		c.OwnPhaseTwo = c.OwnPhaseTwo || mb.vote == VotePrepared
		c.Votes = append(c.Votes, BranchVote{Branch: mb.branch.ID, Vote: mb.vote})
	}
	return c, nil
}

// refuse ends a transaction of which no vote was given away: nobody can commit
// it, so the sessions need not wait for the coordinator.
func (tx *Tx) refuse(ctx context.Context, op string, c Cause, why error) error {
	acks := tx.drive(ctx, RollingBack)
	if c == CauseTimeout && !tx.hasMoreTime(ctx) {
		// The coordinator comes to the same end by itself, and records the cause.
		return fmt.Errorf("%w: %w", tx.rolledBack(op, c), why)
	}
	out, err := tx.tell(ctx, why.Error(), acks)
	if errors.Is(err, ErrConflict) {
		return fmt.Errorf("%w: although the sessions have rolled back: %w", err, why)
	}
	if out.Cause == CauseTimeout {
		c = CauseTimeout
	}
	return fmt.Errorf("%w: %w", tx.rolledBack(op, c), why)
}

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
	out, err := tx.tell(ctx, why.Error(), nil)
	if err != nil {
		return tx.doubt(fmt.Errorf("%w; and then: %w", why, err))
	}
	tx.report(ctx, tx.drive(ctx, RollingBack))
	return fmt.Errorf("%w: %w", tx.rolledBack("commit", out.Cause), why)
}

// doubt leaves everything as it is, for the coordinator to finish.
func (tx *Tx) doubt(why error) error {
	for _, mb := range tx.settle(0) {
		mb.session.Release()
	}
	if errors.Is(why, ErrInDoubt) {
		return why
	}
	return fmt.Errorf("%w: %w", &Error{Op: "commit", ID: tx.ID(), Err: ErrInDoubt}, why)
}

// Rollback undoes the sessions and tells the coordinator, also when ctx has
// ended. After a rollback it does nothing; after a commit it answers
// [ErrNotActive]. Any other error means that the coordinator was not reached: it
// rolls back when the transaction's time is over.
func (tx *Tx) Rollback(ctx context.Context, reason string) error {
	if _, first := tx.close(); !first {
		if tx.ending() == RollingBack {
			return nil
		}
		return tx.notActive("rollback")
	}
	_, err := tx.tell(ctx, reason, tx.drive(ctx, RollingBack))
	return err
}

// drive brings the sessions to the decision and releases them. It gives those
// that got there; the others are the coordinator's.
func (tx *Tx) drive(ctx context.Context, to State) (acks []Ack) {
	ctx, cancel := detached(ctx)
	defer cancel()
	for _, mb := range tx.settle(to) {
		switch {
		case to == RollingBack && mb.rollback(ctx):
			acks = append(acks, Ack{Branch: mb.branch.ID, State: BranchRolledBack})
		case to == Committing && mb.vote == VotePrepared && mb.session.Commit(ctx) == nil:
			acks = append(acks, Ack{Branch: mb.branch.ID, State: BranchCommitted})
		}
		mb.session.Release()
	}
	return acks
}

// tell asks the coordinator to roll back, whatever became of the caller.
func (tx *Tx) tell(ctx context.Context, reason string, acks []Ack) (Outcome, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	out, err := tx.m.Rollback(ctx, tx.ID(), shorten(reason))
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

// close lets nobody join any more and gives who did. Only the first caller may
// end the transaction.
func (tx *Tx) close() (members []*member, first bool) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	first, tx.ended = !tx.ended, true
	return tx.members, first
}

// settle records the end and gives the members with a session. One that is still
// being opened loses its place: its opener undoes what it did.
func (tx *Tx) settle(end State) []*member {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	tx.end = end
	tx.members = slices.DeleteFunc(slices.Clone(tx.members), func(mb *member) bool { return mb.session == nil })
	return tx.members
}

// ending is how the transaction was ended, as far as known.
func (tx *Tx) ending() State {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	return tx.end
}

func (tx *Tx) notActive(op string) error {
	return &Error{Op: op, ID: tx.ID(), State: tx.ending(), Err: ErrNotActive}
}

func (tx *Tx) rolledBack(op string, c Cause) error {
	return &Error{Op: op, ID: tx.ID(), State: RollingBack, Cause: c, Err: ErrRolledBack}
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
