package recovery

import (
	"context"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/recovery/plan"
	"github.com/txmgr/txmgr/recovery/scan"
	"github.com/txmgr/txmgr/txn"
)

// What the log has about transactions and their branches, as package plan defines it.
type (
	PendingTx    = plan.PendingTx    // the work that is left for one transaction
	Branch       = plan.Branch       // a branch and its participant
	BranchResult = plan.BranchResult // what was learnt about one branch
	Key          = plan.Key          // names one branch of one transaction
	BranchStatus = plan.BranchStatus // what the log knows about one branch
)

// Log is the coordinator's side of recovery: it knows the pending work and makes
// results durable. It is used by many goroutines at once.
type Log interface {
	// Pending returns the work that is left for a transaction; false when there is
	// none. The slices belong to the caller; what they point to is not changed.
	Pending(id txn.ID) (PendingTx, bool)
	// Report makes results for branches of one transaction durable. After nil
	// Pending reflects them. An error means that nothing is known to be recorded; the
	// same results are reported again. Repeating a report is harmless.
	Report(ctx context.Context, id txn.ID, rs []BranchResult) error
	// Lookup returns what the log knows, in the order of the keys. The answer must
	// hold everything that was committed to the log before the call, by any
	// leader; when that cannot be had (leadership lost, not caught up) Lookup
	// must fail, because a live transaction would be taken for an unknown one.
	Lookup(ctx context.Context, keys []Key) ([]BranchStatus, error)
	// Participant returns a registered participant, opened and shared. An error
	// means that it is not available now.
	Participant(ctx context.Context, name string) (participant.Participant, error)
	// Participants names all registered participants.
	Participants() []string
	// RecoveryPaused reports that no participant may be called: the log was restored from
	// a backup, and no operator has resumed recovery yet. Pending returns no work
	// then. Once recovery is resumed, all pending transactions have to be added again.
	RecoveryPaused() bool
}

// ClockSlack is the assumed largest difference between two clocks that have to be compared:
// the coordinator's, a participant's, and those that make ids.
const ClockSlack = scan.ClockSlack
