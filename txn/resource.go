package txn

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// Resource is the application's handle on one branch: it does the work, votes and ends the
// branch. The calls come one at a time: at most one Prepare, then at most one of Commit and
// Rollback, then Release.
type Resource interface {
	// Prepare makes the branch able to commit and able to roll back, and votes. [VoteNo] means
	// that the branch has rolled back already; the error is the reason. An error with any other
	// vote means that the result is not known, and the transaction is rolled back; one that is
	// [ErrEndedByApplication], as one with [VoteEndedByApplication], says that the
	// application's own statements ended the branch. After [VoteReadOnly] and [VoteNo] only
	// Release follows.
	Prepare(ctx context.Context) (Vote, error)
	// Commit commits what was prepared. Nil means: committed, durably. After an error the
	// coordinator finishes the branch.
	Commit(ctx context.Context) error
	// Rollback rolls the work back, prepared or not. Nil means: it has, and will have, no
	// effect. After an error the coordinator finishes the branch; [ErrEndedByApplication] means
	// the same as from Prepare.
	Rollback(ctx context.Context) error
	// Release releases what the resource holds and decides nothing: a prepared branch stays
	// prepared for the coordinator. It is called once, last, and right after Prepare when the
	// outcome could not be learnt.
	Release()
}

// OnePhaseCommitter is implemented by a [Resource] that can commit its branch alone, without a
// prepare, when it is the transaction's only one, or the last one of several that decides ([Options.LastDecides]). The decision is delegated to the branch: either the
// enlistment appoints it ([Enlistment.Decides]), which is sent when the resource has been opened,
// or the coordinator has delegated it by a call before the commit. When the application does not report how the branch
// ended, the coordinator finds out.
type OnePhaseCommitter interface {
	// OnePhase reports whether this resource can do so, and will be able to prove afterwards
	// how the branch ended. It is asked when the resource has been opened: whatever the proof needs, a row for
	// example, has been written then, and the answer was seen.
	OnePhase() bool
	// CommitOnePhase commits a branch that was not prepared. [BranchCommitted]: durably.
	// [BranchRolledBack]: surely not committed, and never will be; the error is the reason. Any
	// other state comes with an error and means that the end is not known. Only Release
	// follows.
	CommitOnePhase(ctx context.Context) (BranchState, error)
}

// EnlistFunc enlists the branch that is being joined: session is the SessionRef of
// [Enlistment], payload its Payload. It must have returned before the resource does its first
// work. The coordinator may not know the branch yet when it returns; it does before Prepare of
// the resource is called. The enlistment of a branch that may decide ([OnePhaseCommitter]) is not sent before the
// function that opens the resource has returned.
type EnlistFunc func(ctx context.Context, session string, payload []byte) (Branch, error)

// Join returns the transaction's resource at a participant. The first call opens it; every
// later one gets the same, and waits while it is being opened. When open fails, the next call
// tries again.
//
// [ErrNotActive]: the transaction has been ended. [ErrConflict]: the participant was joined
// with a resource of another type.
func Join[S Resource](ctx context.Context, tx *Tx, participant string, open func(context.Context, EnlistFunc) (S, error)) (S, error) {
	var none S
	for {
		en, first := tx.enroll(participant)
		switch {
		case en == nil:
			return none, tx.notActive("join " + participant)
		case first:
			return openResource(ctx, tx, en, open)
		}
		if err := en.waitOpened(ctx); err != nil {
			return none, fmt.Errorf("join %s, which is being opened: %w", participant, err)
		}
		if en.resource == nil {
			continue // its opener failed and removed it from the list
		}
		s, ok := en.resource.(S)
		if !ok {
			return none, &Error{Op: "join " + participant, ID: tx.begin.ID, Err: ErrConflict, Detail: fmt.Sprintf("already joined by a %T", en.resource)}
		}
		return s, nil
	}
}

// openResource opens the resource of an enrollment that was just made.
func openResource[S Resource](ctx context.Context, tx *Tx, en *enrollment, open func(context.Context, EnlistFunc) (S, error)) (s S, err error) {
	var session Resource // stays nil when open fails or panics
	defer func() {
		tx.announcer.opened(en.participant, isOnePhase(session))
		if tx.finishEnroll(en, session) || session == nil {
			return
		}
		ctx, cancel := detachedContext(ctx)
		defer cancel()
		_ = session.Rollback(ctx) // if this fails, the coordinator finishes it
		session.Release()
		err = tx.notActive("join " + en.participant)
	}()
	s, err = open(ctx, func(ctx context.Context, session string, payload []byte) (Branch, error) {
		e := Enlistment{Participant: en.participant, SessionRef: session, Payload: payload}
		b, named, err := tx.announcer.enlist(e)
		if !named && err == nil {
			err = tx.announcer.begin(ctx, false)
		}
		if !named && err == nil {
			b, err = tx.m.Enlist(ctx, tx.begin.ID, e)
		}
		en.branch = b
		return b, err
	})
	if err == nil {
		session = s
	}
	return s, err
}

func isOnePhase(s Resource) bool {
	c, ok := s.(OnePhaseCommitter)
	return ok && c.OnePhase()
}

// enrollment is a participant's entry in a transaction. Its opener writes branch and resource
// before it closes opened, resource under the lock of the transaction; the last five fields
// belong to the caller that ends the transaction.
type enrollment struct {
	participant        string
	opened             chan struct{} // closed when opening has ended
	branch             Branch
	resource           Resource // nil: still being opened, or opening failed
	vote               Vote
	prepareErr         error                 // of Prepare
	endedByApplication atomic.Pointer[error] // the error of the resource whose branch was ended by the application
	outcome            BranchState           // zero: left to the coordinator
	decided            bool                  // its commit in one phase was tried: only its outcome is left
}

// waitOpened returns when opening has ended. When it has, a context that has ended makes no
// difference.
func (en *enrollment) waitOpened(ctx context.Context) error {
	select {
	case <-en.opened:
		return nil
	default:
	}
	select {
	case <-en.opened:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// rollback reports whether the resource has surely rolled back.
func (en *enrollment) rollback(ctx context.Context) bool {
	if en.vote == VoteReadOnly || en.vote == VoteNo {
		return true // nothing is left to roll back
	}
	err := en.resource.Rollback(ctx)
	en.noteEndedByApplication(err)
	return err == nil
}

// noteEndedByApplication records an error of the resource that says that the application ended
// the branch.
func (en *enrollment) noteEndedByApplication(err error) {
	if errors.Is(err, ErrEndedByApplication) {
		err = fmt.Errorf("%s: %w", en.participant, err)
		en.endedByApplication.CompareAndSwap(nil, &err)
	}
}

// enroll finds the enrollment of the participant, or makes one. It is nil when the transaction
// has been ended.
func (tx *Tx) enroll(participant string) (en *enrollment, first bool) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.ended {
		return nil, false
	}
	for _, en := range tx.enrollments {
		if en.participant == participant {
			return en, false
		}
	}
	en = &enrollment{participant: participant, opened: make(chan struct{})}
	tx.enrollments = append(tx.enrollments, en)
	return en, true
}

// finishEnroll ends the opening of a resource. It is false when the transaction has been ended
// without waiting for it.
func (tx *Tx) finishEnroll(en *enrollment, s Resource) bool {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	for i, other := range tx.enrollments {
		if other != en {
			continue
		}
		if en.resource = s; s == nil {
			tx.enrollments = append(tx.enrollments[:i:i], tx.enrollments[i+1:]...)
		}
		close(en.opened)
		return true
	}
	close(en.opened)
	return false
}
