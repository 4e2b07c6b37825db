package machine

import (
	"time"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// Transaction is a copy of one transaction of the machine, for readers and snapshots. It shares
// nothing with the machine.
type Transaction struct {
	ID          txn.ID
	Name        string
	State       txn.State
	Cause       txn.Cause // of the rollback; of a preparing transaction, why the end of its appointed branch has to be found out
	Heuristic   txn.Heuristic
	Reason      string // with the cause, or of forgetting the heuristic outcome
	Timeout     time.Duration
	Survival    uint64        // survival index at begin or at the last extension
	Expiry      survival.Tick // the invocation that ends it, when it is undecided
	Began       int64         // leader's wall clock, milliseconds since 1970
	Fingerprint uint64        // of the begin command, so that a repeat is recognised
	// Seq is its place in the order of joining: of its deadline group while undecided, of the
	// finished outcomes afterwards.
	Seq   uint64
	Ended survival.Tick // when it finished
	// Decided, DecidedTick and DecidedIndex are the leader's wall clock in milliseconds since
	// 1970, the tick and the log entry of the decision. Zero when there is none, when the
	// deadline or the end of the session decides and no entry has recorded that yet, and when
	// an earlier release made the decision.
	Decided         int64
	DecidedTick     survival.Tick
	DecidedIndex    uint64
	ClientCompletes bool
	Reenlisted      bool // a branch was enlisted again from another connection, so that two may have done its work
	// BeforeRestore: it is in the backup that the state was last restored from, and not rolled back
	// there. It may have been committed and forgotten since. Set by [Transaction.MarkRestored],
	// until it finishes without a heuristic outcome.
	BeforeRestore bool
	Labels        []Label
	Branches      []TransactionBranch // b1, b2 and so on
	Session       txn.SessionID       // of the client; zero for none
}

// Decider is the branch whose own end decides the undecided transaction: it is appointed, or the decision was
// delegated to it. Zero when there is none.
func (t *Transaction) Decider() txn.BranchID {
	if t.State.Decided() {
		return 0
	}
	for k := range t.Branches {
		// An only branch that was ended by the application decides unless the decision is delegated to it.
		ended := t.State == txn.Preparing && len(t.Branches) == 1 && t.Branches[k].Vote == txn.VoteEndedByApplication
		if ended || t.Branches[k].Vote == txn.VoteDelegated {
			return txn.BranchID(k + 1)
		}
	}
	return 0
}

// Delegated reports whether the decision was left to a branch, whose end is awaited or being found out.
func (t *Transaction) Delegated() bool { return t.State == txn.Preparing && t.Decider() != 0 }

// EndAsked reports whether the end of the branch that decides is being found out, before the deadline: it was given up, or
// statements of the application's own ended it.
func (t *Transaction) EndAsked() bool {
	return t.Delegated() && (t.Cause != 0 || t.EndedByApplication())
}

// Follows reports whether the branch ends as another one that decides, and is left alone until that has ended.
func (t *Transaction) Follows(id txn.BranchID) bool {
	decider := t.Decider()
	return decider != 0 && decider != id
}

// Appointed reports whether the transaction is active, and a branch decides by its own end.
func (t *Transaction) Appointed() bool { return t.State == txn.Active && t.Decider() != 0 }

// TransactionBranch is one branch of a [Transaction].
type TransactionBranch struct {
	Participant string
	Payload     []byte
	SessionRef  string
	Replaced    []string // session references that SessionRef replaced
	Vote        txn.Vote
	State       txn.BranchState
	Heuristic   txn.Heuristic
	Detail      string // of the heuristic outcome
}

// Header is the part of the state that does not belong to a transaction.
type Header struct {
	Bootstrap    Bootstrap
	Tick         survival.Tick
	Seq          uint64
	Committed    uint64  // decisions since bootstrap
	RolledBack   ByCause // likewise
	Participants []Registration
	Audit        []AuditRecord // oldest first; not to be changed
	// Incarnation counts how often the state was restored from a backup. RecoveryPaused says
	// that no operator has resumed recovery since then.
	Incarnation    uint64
	RecoveryPaused bool
	ResumedAt      int64    // when it was last resumed: leader's wall clock, milliseconds since 1970; 0 for never
	Members        []Member // in the order in which they joined; not to be changed
	Removed        []string // ids of nodes that were removed for good, oldest first; not to be changed
	Tokens         []Token  // in the order in which they were made; not to be changed

	SessionsExpired uint64 // client sessions that have expired so far
	Sessions        int    // number of sessions, with those that have ended and are retained
}

// Registration is a participant, and whether it was removed: old transactions still refer to
// its number.
type Registration struct {
	admin.Participant
	Removed bool
}
