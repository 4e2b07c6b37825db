package txn

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Tx is one global transaction as an application holds it: the one that began it
// ([Run], [Start]), which alone may commit, or another one ([RunIn], [Attach]). The
// work is done in sessions, one for each participant; see [Join].
//
// Safe for concurrent use, but a session is used by one goroutine at a time, as
// its participant says.
type Tx struct {
	m        Manager
	begin    BeginResult
	attached bool // another application began it

	callerDeadline time.Time // the deadline of Run's caller, to which it has shortened the timeout; zero without

	mu                 sync.Mutex    // guards all below
	ended              bool          // Commit or Rollback was called: nobody joins any more
	decided            State         // [Committing] or [RollingBack]; zero while not known
	enrollments        []*enrollment // in the order of joining
	untrackedBranches  bool          // it may have branches that are not members
	multiClient        bool          // others may take part: other applications, or who begins the same id
	rollbackCause      error         // why it must not commit
	coordinatorOutcome Outcome       // of the coordinator: the cause, and of branches that were ended by hand or are a hazard
	reportErr          error         // why the coordinator was not told of the rollback
	granted            time.Duration // the longest timeout so far

	// The time of the work; all nil without [Run].
	cancelWork context.CancelCauseFunc // ends it
	timer      context.Context         // ends when it has to
	stopTimer  func()                  // forgets timer
}

// phaseTwoTimeout bounds the application's own part of phase two. What takes longer is
// left to the coordinator.
const phaseTwoTimeout = 10 * time.Second

// maxTimeoutLag is how far behind the application the coordinator may be with a
// timeout before somebody has to tell it.
const maxTimeoutLag = time.Second

// Start begins a transaction. Whoever calls it sees to it that Commit or
// Rollback is called; [Run] does so by itself.
func Start(ctx context.Context, m Manager, o Options) (*Tx, error) {
	begun, err := m.Begin(ctx, o)
	if err != nil {
		return nil, err
	}
	// Somebody else may begin the transaction of an id that was given, and commit it.
	return &Tx{m: m, begin: begun, granted: begun.Timeout, multiClient: !o.ID.IsZero()}, nil
}

// Enlist adds a branch whose participant is asked for its vote by the coordinator,
// when the transaction is committed: a service, for example. The participant gets
// the payload in every phase.
//
// [ErrNotActive]: the transaction has been ended.
func (tx *Tx) Enlist(ctx context.Context, e Enlistment) (Branch, error) {
	tx.mu.Lock()
	ended := tx.ended
	tx.untrackedBranches = true
	tx.mu.Unlock()
	if ended {
		return Branch{}, tx.notActive("enlist " + e.Participant)
	}
	return tx.m.Enlist(ctx, tx.ID(), e)
}

// ID names the transaction.
func (tx *Tx) ID() ID { return tx.begin.ID }

// Timeout is what was granted: how long the transaction may stay undecided,
// counted from its begin. Extensions do not show in it.
func (tx *Tx) Timeout() time.Duration { return tx.begin.Timeout }

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
	tx.granted = max(tx.granted, timeout)
	tx.armTimerLocked(timeout)
	return nil
}

// Rollback undoes the sessions and tells the coordinator, also when ctx has
// ended. After a rollback it does nothing; after a commit it answers
// [ErrNotActive]. [ErrEndedByApplication]: a branch had been ended by statements of this
// application, or of another one that takes part. [ErrHeuristic]: a branch is known to be
// committed nevertheless, or may be. Any other error means that the coordinator was not reached: it rolls
// back when the transaction's time is over.
func (tx *Tx) Rollback(ctx context.Context, reason string) error {
	if _, first := tx.stopEnlisting(); !first {
		if tx.decision() == RollingBack {
			return nil
		}
		return tx.notActive("rollback")
	}
	reports := tx.completeResources(ctx, RollingBack)
	if tx.applicationEndError() != nil {
		return tx.reportEndedByApplication(ctx, "rollback", Votes{}, reports, nil)
	}
	out, err := tx.reportRollback(ctx, Votes{Reason: reason}, reports)
	if err == nil && (out.EndedByApplication || out.Heuristic != 0) {
		return tx.rolledBack("rollback", out)
	}
	return err
}

// stopEnlisting lets nobody join any more and gives who did. Only the first caller may
// end the transaction.
func (tx *Tx) stopEnlisting() (enrollments []*enrollment, first bool) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	first, tx.ended = !tx.ended, true
	return tx.enrollments, first
}

// setDecision records the end and gives the members with a session. One that is still
// being opened loses its place: its opener undoes what it did.
func (tx *Tx) setDecision(end State) []*enrollment {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	tx.decided = end
	tx.enrollments = slices.DeleteFunc(slices.Clone(tx.enrollments), func(en *enrollment) bool { return en.resource == nil })
	return tx.enrollments
}

// setRollbackOnly sees to it that the transaction is not committed, for the first reason given.
func (tx *Tx) setRollbackOnly(why error) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.rollbackCause == nil {
		tx.rollbackCause = why
	}
}

// rollbackOnly is why the transaction must not be committed; nil when it may be.
func (tx *Tx) rollbackOnly() error {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	return tx.rollbackCause
}

// lastReportErr is why the coordinator was not told of the rollback; nil when it was.
func (tx *Tx) lastReportErr() error {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	return tx.reportErr
}

// decision is how the transaction was ended, as far as known.
func (tx *Tx) decision() State {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	return tx.decided
}

func (tx *Tx) notActive(op string) error {
	return &Error{Op: op, ID: tx.ID(), State: tx.decision(), Err: ErrNotActive}
}
