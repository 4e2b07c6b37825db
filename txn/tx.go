package txn

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/txmgr/txmgr/txn/internal/workdeadline"
)

// Tx is one global transaction as an application holds it: the application that began it
// ([Run], [Start]) and alone may commit, or another one ([RunIn], [Attach]). The work is done
// through resources, one for each participant; see [Join].
//
// Safe for concurrent use, but a resource is used by one goroutine at a time, as its
// participant documents.
type Tx struct {
	m                Manager
	begin            BeginResult // of its fields, ID and Timeout are always known
	announcer        *announcer  // nil: it was begun by a call
	attached         bool        // another application began it
	returnOnDecision bool        // see [Options]

	mu                 sync.Mutex    // guards all below
	ended              bool          // Commit or Rollback was called: no branch may be added
	decided            State         // [Committing] or [RollingBack]; zero while not known
	enrollments        []*enrollment // in the order of joining
	untrackedBranches  bool          // it may have branches that are not among the enrollments
	multiClient        bool          // others may take part: other applications, or another caller that begins the same id
	rollbackCause      error         // why it must not commit
	coordinatorOutcome Outcome       // of the coordinator: the cause, and branches that were ended by the application or are heuristic
	reportErr          error         // why the rollback could not be reported to the coordinator
	work               workdeadline.Deadline
}

// phaseTwoTimeout bounds the application's own part of phase two. Branches that take longer are
// left to the coordinator.
const phaseTwoTimeout = 10 * time.Second

// maxTimeoutLag is how late the coordinator may notice a timeout, measured by the application's
// clock, before the application requests the rollback.
const maxTimeoutLag = time.Second

// Start begins a transaction. The caller must see to it that Commit or Rollback is called;
// [Run] does so by itself.
//
// With a [Namer] Start makes no call, as a rule. It names the transaction, [Join] names the
// branches, and the coordinator is told of them while the application works; before anything
// prepares, Commit waits until the coordinator has all of it. So a refusal of the begin or of an
// enlistment is an error of a later Join, or of Commit, and then one that is [ErrRolledBack].
// A single branch that can commit in one phase, and prove that, decides by itself: its Commit does not wait, and a refusal that
// comes after it changes nothing, so that the coordinator may have no record of the transaction.
// [Options.AwaitBegin] is for refusals before the work, and [Tx.AwaitBegin] for those of the begin. A transaction that
// ends without a branch, and whose id was not asked for, is never sent.
//
// Start begins by a call when the options ask for it, or have an ID or Branches; and, with a
// client, when it does not know enough of the coordinator: for the first transactions, and
// after half a minute without one.
func Start(ctx context.Context, m Manager, o Options) (*Tx, error) {
	if namer, ok := m.(Namer); ok && !o.AwaitBegin && o.ID.IsZero() && len(o.Branches) == 0 {
		if err := o.Check(); err != nil {
			return nil, Wrap("begin", o.ID, err)
		}
		if n, ok := namer.NameTransaction(ctx, o); ok {
			begun := BeginResult{ID: n.Options.ID, Timeout: n.Options.Timeout}
			return &Tx{m: m, begin: begun, returnOnDecision: o.ReturnOnDecision, work: workdeadline.Deadline{Granted: begun.Timeout}, announcer: newAnnouncer(ctx, m, n)}, nil
		}
	}
	begun, err := m.Begin(ctx, o)
	if err != nil {
		return nil, err
	}
	// Another client may begin the transaction of an id that was given, and commit it.
	return &Tx{m: m, begin: begun, returnOnDecision: o.ReturnOnDecision, work: workdeadline.Deadline{Granted: begun.Timeout}, multiClient: !o.ID.IsZero()}, nil
}

// Enlist adds a branch whose participant is asked for its vote by the coordinator when the
// transaction is committed: a service, for example. The participant receives the payload in
// every phase.
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
	if err := tx.announcer.begin(ctx, true); err != nil {
		return Branch{}, err
	}
	return tx.m.Enlist(ctx, tx.begin.ID, e)
}

// ID names the transaction for calls to the coordinator, of this application and of others.
// The first call waits until the coordinator has begun the transaction, for 10 s at
// most, so that the id is known wherever it is used; later branches are enlisted by calls
// that are waited for, because others may enlist, too, and a branch that decides ([Enlistment.Decides]) does so no more. When the begin is refused, the
// coordinator does not know the id, and nothing can be committed. For log lines, and rows that
// the transaction itself writes, use [Tx.String], which does not wait.
func (tx *Tx) ID() ID {
	ctx, cancel := context.WithTimeout(context.Background(), phaseTwoTimeout)
	defer cancel()
	_ = tx.announcer.begin(ctx, true) // the error is that of Commit
	return tx.begin.ID
}

// String gives the text form of the id. It does not wait: the coordinator may not have begun
// the transaction yet.
func (tx *Tx) String() string { return tx.begin.ID.String() }

// AwaitBegin waits until the coordinator has begun the transaction and has the branches so far.
// An error, for example about a quota or a client session that has ended, means that the
// transaction can only be rolled back.
func (tx *Tx) AwaitBegin(ctx context.Context) error { return tx.announcer.begin(ctx, false) }

// Timeout is the granted timeout: how long the transaction may stay undecided, counted from its
// begin. It does not include extensions.
func (tx *Tx) Timeout() time.Duration { return tx.begin.Timeout }

// Extend asks for a new timeout, counted from now. When it is granted, the context of [Run]
// ends no sooner than that. It never shortens the timeout. After an error the context keeps its
// deadline, although the coordinator may have granted more.
//
// [ErrNotActive]: the transaction has been ended, or its timeout has passed.
func (tx *Tx) Extend(ctx context.Context, timeout time.Duration) error {
	tx.mu.Lock()
	over := tx.ended || tx.work.Passed()
	tx.mu.Unlock()
	if over {
		return tx.notActive("extend")
	}
	if err := tx.announcer.begin(ctx, false); err != nil {
		return err
	}
	if _, err := tx.m.Extend(ctx, tx.begin.ID, timeout); err != nil {
		return err
	}
	tx.mu.Lock()
	defer tx.mu.Unlock()
	tx.work.Extend(timeout)
	return nil
}

// Rollback rolls the resources back and reports that to the coordinator, also when ctx has
// ended. After a rollback it does nothing; after a commit it returns [ErrNotActive].
// [ErrEndedByApplication]: statements of this application, or of another one that takes part,
// had ended a branch. [ErrHeuristic]: a branch is known to be committed nevertheless, or may
// be. Any other error means that the coordinator was not reached: it rolls back when the
// transaction's timeout has passed.
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

// stopEnlisting refuses further branches and returns those that there are. first is true only
// for the first caller, which alone may end the transaction.
func (tx *Tx) stopEnlisting() (enrollments []*enrollment, first bool) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	first, tx.ended = !tx.ended, true
	return tx.enrollments, first
}

// setDecision records the decision and returns the enrollments with a resource. One whose
// resource is still being opened is removed: its opener then rolls back what it did.
func (tx *Tx) setDecision(end State) []*enrollment {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	tx.decided = end
	tx.enrollments = slices.DeleteFunc(slices.Clone(tx.enrollments), func(en *enrollment) bool { return en.resource == nil })
	return tx.enrollments
}

// setRollbackOnly prevents the commit of the transaction; the first reason given is kept.
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

// lastReportErr is why the rollback could not be reported to the coordinator; nil when it was.
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
	return &Error{Op: op, ID: tx.begin.ID, State: tx.decision(), Err: ErrNotActive}
}
