package txn

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// Session is the application's own session of one branch: it did the work, and
// it votes. The calls come one at a time: at most one Prepare, then at most one
// of Commit and Rollback, then Release.
type Session interface {
	// Prepare makes the branch ready to go either way and votes. [VoteNo] means
	// that it has rolled back already; the error is the reason. An error with
	// any other vote means that it is not known what happened, and the transaction is
	// rolled back; one that is [ErrEndedByHand], as one with [VoteEndedByHand], says
	// that the application's own statements ended the branch. After [VoteReadOnly] and [VoteNo] only Release follows.
	Prepare(ctx context.Context) (Vote, error)
	// Commit commits what was prepared. Nil means: committed, durably. After an
	// error the coordinator finishes the branch.
	Commit(ctx context.Context) error
	// Rollback undoes the work, prepared or not. Nil means: it has, and will
	// have, no effect. After an error the coordinator finishes the branch;
	// [ErrEndedByHand] is as of Prepare.
	Rollback(ctx context.Context) error
	// Release gives up what the session holds and decides nothing: what is
	// prepared stays prepared for the coordinator. It is called once, last, and
	// right after Prepare when the outcome could not be learnt.
	Release()
}

// OnePhaser is implemented by a [Session] that can commit its branch alone, without
// a prepare, when it is the transaction's only one. The coordinator has delegated
// the decision to the branch by then, and finds out how it ended if the session
// does not tell.
type OnePhaser interface {
	// OnePhase reports whether this session can do so, and will be able to prove
	// afterwards how it ended.
	OnePhase() bool
	// CommitOnePhase commits what was not prepared. [BranchCommitted]: durably.
	// [BranchRolledBack]: surely not, and never; the error is the reason. Any
	// other state comes with an error and means that it is not known. Only Release
	// follows.
	CommitOnePhase(ctx context.Context) (BranchState, error)
}

// Enlister enlists the branch that is being joined: session and payload as in
// [Enlistment]. It must have returned before the first work of the session.
type Enlister func(ctx context.Context, session string, payload []byte) (Branch, error)

// Join gives the transaction's session at a participant. The first call opens
// it; every later one gets the same, and waits while it is being opened. When
// open fails, the next call tries again.
//
// [ErrNotActive]: the transaction has been ended. [ErrConflict]: the participant
// was joined with a session of another type.
func Join[S Session](ctx context.Context, tx *Tx, participant string, open func(context.Context, Enlister) (S, error)) (S, error) {
	var none S
	for {
		mb, first := tx.place(participant)
		switch {
		case mb == nil:
			return none, tx.notActive("join " + participant)
		case first:
			return opened(ctx, tx, mb, open)
		}
		if err := mb.wait(ctx); err != nil {
			return none, fmt.Errorf("join %s, which is being opened: %w", participant, err)
		}
		if mb.session == nil {
			continue // its opener failed and took it off the list
		}
		s, ok := mb.session.(S)
		if !ok {
			return none, &Error{Op: "join " + participant, ID: tx.ID(), Err: ErrConflict, Detail: fmt.Sprintf("already joined by a %T", mb.session)}
		}
		return s, nil
	}
}

// opened opens the session of a place that was just taken.
func opened[S Session](ctx context.Context, tx *Tx, mb *member, open func(context.Context, Enlister) (S, error)) (s S, err error) {
	var session Session // stays nil when open fails or panics
	defer func() {
		if tx.seat(mb, session) || session == nil {
			return
		}
		ctx, cancel := detached(ctx)
		defer cancel()
		_ = session.Rollback(ctx) // the coordinator finishes it otherwise
		session.Release()
		err = tx.notActive("join " + mb.participant)
	}()
	s, err = open(ctx, func(ctx context.Context, session string, payload []byte) (Branch, error) {
		b, err := tx.m.Enlist(ctx, tx.ID(), Enlistment{Participant: mb.participant, Session: session, Payload: payload})
		mb.branch = b
		return b, err
	})
	if err == nil {
		session = s
	}
	return s, err
}

// member is a participant's place in a transaction. Its opener writes branch and
// session before it closes open, session under the lock of the transaction; the
// last four belong to whoever ends the transaction.
type member struct {
	participant string
	open        chan struct{} // closed when opening is over
	branch      Branch
	session     Session // nil: still being opened, or opening failed
	vote        Vote
	fault       error                 // of Prepare
	byHand      atomic.Pointer[error] // what the session said when it had been ended by hand
	end         BranchState           // zero: the coordinator has to see to it
}

// wait returns when opening is over. When it is, a context that has ended makes
// no difference.
func (mb *member) wait(ctx context.Context) error {
	select {
	case <-mb.open:
		return nil
	default:
	}
	select {
	case <-mb.open:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// rollback reports whether the session has surely rolled back.
func (mb *member) rollback(ctx context.Context) bool {
	if mb.vote == VoteReadOnly || mb.vote == VoteNo {
		return true // it has nothing left to undo
	}
	err := mb.session.Rollback(ctx)
	mb.heed(err)
	return err == nil
}

// heed remembers an error of the session that says it was ended by hand.
func (mb *member) heed(err error) {
	if errors.Is(err, ErrEndedByHand) {
		err = fmt.Errorf("%s: %w", mb.participant, err)
		mb.byHand.CompareAndSwap(nil, &err)
	}
}

// place finds the participant's place, or takes a new one. It is nil when the
// transaction has been ended.
func (tx *Tx) place(participant string) (mb *member, first bool) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.ended {
		return nil, false
	}
	for _, mb := range tx.members {
		if mb.participant == participant {
			return mb, false
		}
	}
	mb = &member{participant: participant, open: make(chan struct{})}
	tx.members = append(tx.members, mb)
	return mb, true
}

// seat ends the opening of a member. It is false when the transaction has been
// ended without waiting for it.
func (tx *Tx) seat(mb *member, s Session) bool {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	for i, other := range tx.members {
		if other != mb {
			continue
		}
		if mb.session = s; s == nil {
			tx.members = append(tx.members[:i:i], tx.members[i+1:]...)
		}
		close(mb.open)
		return true
	}
	close(mb.open)
	return false
}
