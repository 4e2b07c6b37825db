package recovery

import (
	"context"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// PendingTx is what is left to do for one transaction, as the log has it now.
type PendingTx struct {
	ID    txn.ID
	State txn.State // Preparing, Committing or RollingBack
	Cause txn.Cause // of a rollback
	// TimeLeft is the time until the deadline of a transaction that is preparing,
	// also when its decision is delegated and the deadline decides nothing. Zero or
	// less: it is over.
	TimeLeft time.Duration
	// Branches are the unfinished ones; of a transaction that is preparing, those
	// that have not voted and that the coordinator has to ask, and the one to which
	// the decision is delegated, whose Vote is [txn.VoteDelegated], or
	// [txn.VoteEndedByApplication] when its session has not left it as it was. OwnPhaseTwo is
	// set for those that the application finishes itself, and is left Config.Grace
	// for after the decision.
	Branches []Branch
}

// Branch is one branch and where it is.
type Branch struct {
	Participant string
	participant.Branch
}

// BranchResult is what was learnt about one branch. Exactly one of State, Vote and
// Hazard is set.
type BranchResult struct {
	Branch txn.BranchID
	// State is BranchCommitted or BranchRolledBack: the branch ended as decided, or,
	// when the decision was delegated to it, that is the decision.
	State     txn.BranchState
	Vote      txn.Vote      // the answer to prepare
	Heuristic txn.Heuristic // HazardCommitted, HazardRolledBack or HazardUnknown
	// Detail says for people how it is known, and why a vote is no. At most 300
	// bytes.
	Detail string
}

// Key names one branch of one transaction.
type Key struct {
	TX     txn.ID
	Branch txn.BranchID
}

// BranchStatus is what the log knows about one branch that was found at a participant.
type BranchStatus struct {
	// State is the transaction's. Zero: the log does not know the transaction.
	State txn.State
	// Unfinished says that the branch is in the transaction's undone work, so
	// that it is driven anyway.
	Unfinished bool
	// Heuristic is the transaction's, until a person forgets it. While there is one,
	// the evidence of its branches at the participants is kept.
	Heuristic txn.Heuristic
	// RetentionHorizon is, for a transaction that the log does not know, how long ago its
	// decision must have been at the very least if there ever was one: a younger one
	// would still be known. Zero: the log does not say.
	RetentionHorizon time.Duration
	// Branch is the branch as enlisted, so that a participant has the session,
	// vote and payload. Zero when the transaction has no such branch.
	Branch participant.Branch
}

// Log is the coordinator's side of recovery: what is undone, and how findings
// become durable. It is used by many goroutines at once.
type Log interface {
	// Pending gives the work that is left for a transaction; false when there is
	// none. The slices belong to the caller; what they point to is not changed.
	Pending(id txn.ID) (PendingTx, bool)
	// Report makes findings about branches of one transaction durable. After nil
	// Undone shows them. An error means that nothing is known to be recorded; the
	// same reports come again. Repeating a report is harmless.
	Report(ctx context.Context, id txn.ID, rs []BranchResult) error
	// Lookup says what the log knows, in the order of the keys. The answer must
	// hold everything that was committed to the log before the call, by whatever
	// leader; when that cannot be had (leadership lost, not caught up) Lookup
	// must fail, because a live transaction would be taken for an unknown one.
	Lookup(ctx context.Context, keys []Key) ([]BranchStatus, error)
	// Participant gives a registered participant, opened and shared. An error
	// means that it cannot be had now.
	Participant(ctx context.Context, name string) (participant.Participant, error)
	// Participants names all registered participants.
	Participants() []string
	// RecoveryPaused reports that nothing may be done at participants: the log was restored from
	// a backup, and nobody has said yet that recovery may act. Undone gives no work
	// then. Once it is not held any more, all undone work has to be added again.
	RecoveryPaused() bool
}
