package plan

import (
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// PendingTx is the work that is left for one transaction, as the log has it now.
type PendingTx struct {
	ID    txn.ID
	State txn.State // Preparing, Committing or RollingBack
	Cause txn.Cause // of a rollback
	// TimeLeft is the time until the deadline of a transaction that is preparing,
	// also when its decision is delegated and the deadline decides nothing. Zero or
	// less: it has passed.
	TimeLeft time.Duration
	// Branches are the unfinished ones; of a transaction that is preparing, those
	// that have not voted and that the coordinator has to prepare, or only the one that
	// decides by its end, whose Vote is [txn.VoteDelegated], or
	// [txn.VoteEndedByApplication] when application SQL ended it. ClientCompletes is
	// set for those that the client completes, and that are left to it for
	// recovery.Config.ClientGrace after the decision.
	Branches []Branch
}

// Branch is one branch and its participant.
type Branch struct {
	Participant string
	participant.Branch
}

// BranchResult is what was learnt about one branch. Exactly one of State, Vote and
// Heuristic is set.
type BranchResult struct {
	Branch txn.BranchID
	// State is BranchCommitted or BranchRolledBack: the branch ended as decided, or,
	// when the decision was delegated to it, its end is the decision.
	State     txn.BranchState
	Vote      txn.Vote      // the answer to prepare
	Heuristic txn.Heuristic // HeuristicCommit, HeuristicRollback or HeuristicHazard
	// Detail tells the operator how the result is known, and why a vote is no. At most
	// 300 bytes.
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
	// Unfinished means that the branch is in the transaction's pending work, so
	// that it is driven anyway.
	Unfinished bool
	// Heuristic is the transaction's, until an operator forgets it. While there is one,
	// the commit records of its branches at the participants are kept.
	Heuristic txn.Heuristic
	// RetentionHorizon is, for a transaction that the log does not know, the least age of
	// its decision if there ever was one: a younger decision would still be known. Zero:
	// not known.
	RetentionHorizon time.Duration
	// Retention is how long an outcome is kept when there are not too many: no begin that appoints a
	// branch is taken when its id is as old.
	Retention time.Duration
	// Decider is the branch that decides the transaction by its own end, while the transaction is
	// active and the branch appointed. Its ID is zero when there is none.
	Decider Branch
	// Branch is the branch as enlisted, so that a participant has the session reference,
	// vote and payload. Zero when the transaction has no such branch.
	Branch participant.Branch
}

// Summary describes the result for the operator.
func (rep BranchResult) Summary() string {
	var s string
	switch {
	case rep.State != 0:
		s = rep.State.String()
	case rep.Vote != 0:
		s = rep.Vote.String()
	default:
		s = "heuristic: " + rep.Heuristic.String()
	}
	if rep.Detail != "" {
		s += " (" + rep.Detail + ")"
	}
	return s
}
