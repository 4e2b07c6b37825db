package indoubt

import (
	"fmt"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// decidingBranch is the branch whose own end decides the transaction, or has decided it; zero for none.
func decidingBranch(t *machine.Transaction) txn.BranchID {
	for k, b := range t.Branches {
		if b.Vote == txn.VoteDelegated || len(t.Branches) == 1 && b.Vote == txn.VoteEndedByApplication {
			return txn.BranchID(k + 1)
		}
	}
	return 0
}

// branchName names a branch for operators, for example "b2 at stock".
func branchName(t *machine.Transaction, id txn.BranchID) string {
	if id == 0 {
		return ""
	}
	return fmt.Sprintf("%v at %s", id, t.Branches[id-1].Participant)
}

// decidesText states that the deciding branch decides.
func decidesText(t *machine.Transaction) string {
	name := branchName(t, decidingBranch(t))
	if len(t.Branches) == 1 {
		return "its only branch decides, " + name
	}
	return name + " decides"
}

// deciderText names the deciding branch of a transaction as the subject of a statement.
func deciderText(t *machine.Transaction) string {
	if len(t.Branches) == 1 {
		return "its only branch, which decides,"
	}
	return branchName(t, decidingBranch(t)) + ", which decides,"
}
