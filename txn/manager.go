package txn

import (
	"context"
	"time"
)

// DefaultTimeout is the timeout of transactions that ask for none, unless the
// coordinator was configured otherwise.
const DefaultTimeout = 30 * time.Second

// Options describe a transaction to begin. The zero value is valid.
type Options struct {
	// ID names the transaction; made by the manager when zero. A begin repeated
	// with the same id and equal options answers as before, or, when the outcome may
	// have been forgotten, [ErrForgotten].
	ID ID
	// Mark is what the maker of ID knew of the coordinator when it made the id: the mark of the
	// latest [BeginResult]. It belongs to the id, and must be the same in every begin of it:
	// keep both, or neither. Zero: not known; then the time in the id counts, which may be
	// wrong by a minute. It is not used when ID is zero.
	Mark Mark
	// Name is a description for operators. At most 128 bytes.
	Name string
	// Timeout is how long the transaction may stay undecided. A transaction never times out
	// early, and times out late by at most one interval of the coordinator and one commit of
	// its log. Defaults to 30s.
	Timeout time.Duration
	// Labels are for operators and filters. At most 16, keys and values of at most 128 bytes
	// each.
	Labels map[string]string
	// Branches are enlisted at once, which saves a round trip each.
	Branches []Enlistment
	// Session makes the transaction part of a client session: when that is closed or expires
	// first, the transaction is rolled back. Zero means none.
	Session SessionID
	// AwaitBegin makes [Start] and [Run] return the errors of the begin, and [Join] those of the
	// enlistment, before the work: each is a call that is waited for. It is not sent.
	AwaitBegin bool
	// ReturnOnDecision makes [Tx.Commit] and [Run] return nil as soon as the decision to commit
	// is durable. The resources then commit, are released and reported in the background, which
	// takes 10 s at most; what they do not complete, the coordinator does. Until then the
	// branches hold their locks, readers do not see their work, and their connections are not in
	// the pools. Whether a branch ended otherwise than decided is known to [Manager.Wait], with
	// [UntilFinished], and to Get. A resource that panics then ends the process. It makes no difference to a rollback, nor to a commit in one
	// phase, which is the decision. It is not sent.
	ReturnOnDecision bool
	// LastDecides lets the last of several branches decide, in the order of [Join], if its resource can
	// commit in one phase and prove that afterwards ([OnePhaseCommitter]): all others prepare, it
	// commits, and that is the decision; the others then commit. That saves the wait for the
	// coordinator's log and a prepare. In exchange, when that database fails in the middle of its commit, the
	// others keep their locks until it is back and can be asked, or an operator says how it ended. Where it
	// cannot be, the log decides as otherwise: when the last resource cannot do so, a branch votes [VoteReadOnly], others
	// know the id, the coordinator asks for votes itself ([Tx.Enlist]), or the begin is awaited. It is not sent.
	LastDecides bool
}

// Enlistment asks for a branch at a participant. Enlisting the same participant twice returns
// the same branch.
type Enlistment struct {
	Participant string
	// Payload is passed to the participant in every phase. At most 64 KiB.
	Payload []byte
	// SessionRef identifies the database connection that works for the branch, so that it can
	// be fenced at the deadline and its end be proved; see the participant's documentation for
	// the form. At most 256 bytes. A later enlistment with another reference replaces it for
	// good: a reference that was replaced is refused with [ErrConflict], so that a copy of its
	// enlistment that arrives late changes nothing. At most 16 references of a branch may be
	// replaced.
	SessionRef string
	// Decides appoints the branch: its own end, reported by ReportCompletion, is the decision. The application may commit it
	// in one phase without asking, as soon as all other branches have voted [VotePrepared] behind enlistments that were
	// answered; the only branch of a transaction at any time from now on. At the deadline, and at
	// a rollback, the coordinator finds out how the branch ended. What proves that has to be in place before this is sent:
	// see [OnePhaseCommitter]; and the coordinator must know of it: see [BeginResult.Appoints]. [ErrConflict]: another branch
	// decides, one has voted, or the coordinator prepares one.
	Decides bool
	// Revokes says that no branch that was enlisted before decides by its own end any more, nor this one unless Decides is
	// set, too. While one decides, only the application that appointed it
	// must say so, before it commits it, and other enlistments of another participant are refused with [ErrConflict].
	Revokes bool
}

// Branch is the result of an enlistment.
type Branch struct {
	ID          BranchID
	Participant string
	XID         string // the name to prepare under
}

// BeginResult is a transaction that was begun.
type BeginResult struct {
	ID            ID
	Timeout       time.Duration // granted
	SurvivalIndex uint64
	ExpiryTick    uint64
	Branches      []Branch // in the order of Options.Branches
	// Mark is the mark for ids that are made from now on, see [Options]. It is not the mark of
	// this transaction's id.
	Mark Mark
	// Appoints says that the coordinator knows [Enlistment.Decides]. An older one ignores that.
	Appoints bool
}

// BranchVote is the vote of one branch, as learnt by the client that prepared it.
type BranchVote struct {
	Branch BranchID
	Vote   Vote
}

// CommitRequest asks for the decision to commit.
type CommitRequest struct {
	Votes []BranchVote
	// ClientCompletes says that the caller will complete its branches itself and report them by
	// ReportCompletion; recovery leaves it a grace period to do so.
	ClientCompletes bool
}

// Votes hands votes in without asking for a decision.
type Votes struct {
	Votes []BranchVote
	// ClientCompletes is as in [CommitRequest].
	ClientCompletes bool
	// Reason says, in words, why a vote is no. At most 512 bytes.
	Reason string
}

// Outcome is the state in which a call left the transaction.
type Outcome struct {
	State     State
	Cause     Cause
	Heuristic Heuristic
	// EndedByApplication says that statements of the application's own ended a branch: even
	// when the transaction is rolled back, part of its work may be applied.
	EndedByApplication bool
}

// CompletionReport says how a branch ended: [BranchCommitted] or [BranchRolledBack].
type CompletionReport struct {
	Branch BranchID
	State  BranchState
}

// Goal is the state for which Wait waits.
type Goal uint8

const (
	// UntilFinished: nothing is left to be done.
	UntilFinished Goal = iota
	// UntilDecided: the outcome is fixed.
	UntilDecided
)

// Manager is a transaction coordinator, embedded (node.Node) or over the network
// (client.Client). It is one interface, although a large one, because applications hold one
// value and every call is about one transaction.
//
// All calls may be repeated, with the same answer. All are safe for concurrent use. Errors are
// [*Error].
type Manager interface {
	// Begin begins a transaction; its timeout counts from the coordinator's acceptance.
	Begin(ctx context.Context, o Options) (BeginResult, error)
	// Enlist records a branch durably, which must precede its prepare.
	Enlist(ctx context.Context, id ID, e Enlistment) (Branch, error)
	// Commit decides. A nil error means: decided to commit, durably; phase two may still be
	// running (see Outcome.State). An error that is [ErrRolledBack] means surely not;
	// [ErrHeuristic], [ErrEndedByApplication]: it is rolled back, but a branch may be
	// committed; [ErrInDoubt]: ask Get.
	Commit(ctx context.Context, id ID, c CommitRequest) (Outcome, error)
	// Rollback decides to roll back. A transaction that is decided to commit answers
	// [ErrConflict]. One with a heuristic outcome has it in the result. One that is rolled
	// back, and of which statements of the application's own ended a branch, answers
	// [ErrEndedByApplication].
	Rollback(ctx context.Context, id ID, reason string) (Outcome, error)
	// Vote hands in the votes of some branches; the rest comes with Commit. A no decides to
	// roll back, and is not an error. After a decision that contradicts the votes the error is
	// [ErrRolledBack] or [ErrConflict]. [VoteEndedByApplication] decides as a no does, and is
	// also taken after a rollback was decided: from then on every call that would return
	// [ErrRolledBack] returns [ErrEndedByApplication].
	Vote(ctx context.Context, id ID, b Votes) (Outcome, error)
	// Delegate leaves the decision to the transaction's only branch, which the application is
	// about to commit in one phase: see [OnePhaseCommitter]. From then on only the end of that
	// branch decides, reported by ReportCompletion. When the application does not report it,
	// the coordinator asks the participant after the deadline. [ErrConflict]: there are other
	// branches, or votes.
	Delegate(ctx context.Context, id ID, b BranchID) (Outcome, error)
	// Extend grants a new timeout, counted from now. It never shortens.
	Extend(ctx context.Context, id ID, timeout time.Duration) (Outcome, error)
	// ReportCompletion reports branches that the caller has completed. For a branch to which
	// the decision was delegated the report is the decision.
	ReportCompletion(ctx context.Context, id ID, acks ...CompletionReport) error
	// Get returns a transaction.
	Get(ctx context.Context, id ID) (Info, error)
	// Wait returns when the transaction has reached the goal, or with
	// [ErrWaitTimeout] when ctx ends first.
	Wait(ctx context.Context, id ID, goal Goal) (Info, error)
}
