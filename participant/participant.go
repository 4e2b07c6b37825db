package participant

import (
	"context"
	"time"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// Branch is what a participant needs to drive one branch.
type Branch struct {
	TX              txn.ID
	ID              txn.BranchID
	XID             string // the name it is, or would be, prepared under
	Vote            txn.Vote
	Payload         []byte
	SessionRef      string // the session reference as given at enlist; may be empty
	ClientCompletes bool   // the application may have completed the branch itself
	// BeforeRestore: the coordinator was restored from a backup, in which the transaction was begun and
	// not decided to roll back. What was voted and decided later is lost, so the branch may have been
	// committed, and a commit record that the coordinator removes (see [Pruner]) may have been removed.
	// That there is none proves nothing, unless the branch was seen open or prepared since.
	BeforeRestore bool
	// Attempts is how often the coordinator has tried before, as far as this leader knows, with
	// a result that was never learnt: every failed call but those with a [NoEffectError]. It
	// proves nothing.
	Attempts int
	// TimeLeft is the time until the transaction's deadline, for Prepare only.
	TimeLeft time.Duration
}

// MayBeCommitted reports whether the branch may have been committed when it is not there any
// more: it voted yes, or may have voted yes after a backup, or statements of the application's own
// have ended it. Only proof shows that it was rolled back.
func (b Branch) MayBeCommitted() bool {
	return b.Vote == txn.VotePrepared || b.Vote == txn.VoteEndedByApplication || b.BeforeRestore
}

// NoEffectError is an error of Commit, Rollback or Prepare after which nothing can have
// happened to the branch by this call: the participant was not reached, or it refused. Other
// errors leave that open.
type NoEffectError struct{ Err error }

// Error returns the text of Err.
func (e *NoEffectError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *NoEffectError) Unwrap() error { return e.Err }

// BranchOutcome is how a branch is known to have ended.
type BranchOutcome uint8

const (
	// Committed: its effects are durable.
	Committed BranchOutcome = iota + 1
	// RolledBack: it has, and will have, no effect.
	RolledBack
	// Unknown: it is not there any more, and its end cannot be proved.
	Unknown
)

// String returns the outcome's name.
func (e BranchOutcome) String() string {
	switch e {
	case Committed:
		return "committed"
	case RolledBack:
		return "rolled back"
	case Unknown:
		return "unknown"
	}
	return "none"
}

// Result is what Commit and Rollback learnt.
type Result struct {
	Outcome BranchOutcome
	// Detail says how that is known, for example "pg_xact_status".
	Detail string
}

// Prepared is a branch that a participant holds prepared.
type Prepared struct {
	XID   string
	Since time.Time // by the participant's clock; zero when it does not say
	// Age is how long it has been prepared, at least, by the participant's own clock alone:
	// from two or more readings of that clock. Zero when the participant does not measure it;
	// then the difference between its clock and the caller's has to be allowed for.
	Age   time.Duration
	Owner string // for display: user, database
}

// Participant is the coordinator's side of a participant.
type Participant interface {
	// Commit drives the branch to committed and says how it ended. A Result other than
	// [Committed] is a heuristic outcome. An error means try again; a [NoEffectError] says that
	// this try surely did nothing.
	Commit(ctx context.Context, b Branch) (Result, error)
	// Rollback drives the branch to rolled back, ends the application's connection if that
	// still holds the branch's work (and only then), and says how the branch ended.
	// [RolledBack] is also right for a branch that never prepared, since the sweep finds a
	// prepare that comes later. An error means try again.
	Rollback(ctx context.Context, b Branch) (Result, error)
	// Prepared lists the branches that are prepared there under names that begin with prefix.
	Prepared(ctx context.Context, prefix string) ([]Prepared, error)
	// Check reports whether the participant can take part at all: reachable, allowed,
	// configured. The error says what to do about it.
	Check(ctx context.Context) error
	// Close releases what the Participant holds. Calls in flight may fail.
	Close() error
}

// Preparer is implemented by a Participant that the coordinator itself asks for
// votes.
type Preparer interface {
	// Prepare asks for the vote of a branch, whose work the participant does now or has done.
	// It may be repeated. detail is the reason of a [txn.VoteNo] or
	// [txn.VoteEndedByApplication]. An error means that there is no vote yet: the call is
	// repeated while there is time, unless the error is [txn.ErrEndedByApplication], which
	// counts as that vote.
	Prepare(ctx context.Context, b Branch) (vote txn.Vote, detail string, err error)
}

// OutcomeResolver is implemented by a Participant whose branches can be committed by the
// application alone, in one phase, because it can be proved afterwards how they
// ended.
type OutcomeResolver interface {
	// ResolveOutcome makes sure that the application's connection cannot end the branch any
	// more, ending the connection if it still holds the branch's work, and then says how the
	// branch ended. It does not drive the branch. An error means try again.
	ResolveOutcome(ctx context.Context, b Branch) (Result, error)
}

// OutcomeReader is implemented by an [OutcomeResolver] that can look for the proof of an outcome
// without any effect on a branch that is still open.
type OutcomeReader interface {
	// ReadOutcome reports how the branch ended if that is proved already: known is true, and the
	// outcome, which is durable, is [Committed] or [RolledBack]. In all other cases known is false,
	// also if the branch has ended and only ResolveOutcome could tell how: that there is no proof
	// proves nothing. It ends no connection, keeps no branch from committing, and does not wait
	// for the application's transaction. An error means that the participant could not be asked,
	// or has not the records that were written by the application.
	ReadOutcome(ctx context.Context, b Branch) (result Result, known bool, err error)
}

// Driver makes a Participant from its registration. cluster is the cluster id in the XIDs that
// it may change.
type Driver func(ctx context.Context, p admin.Participant, cluster string) (Participant, error)
