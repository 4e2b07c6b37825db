package repair

import (
	"strings"
	"testing"

	"github.com/txmgr/txmgr/txn"
)

// TestResolveQuestion: an operator is asked for what will be recorded.
func TestResolveQuestion(t *testing.T) {
	branches := func(votes ...txn.Vote) (bs []txn.BranchInfo) {
		for _, v := range votes {
			bs = append(bs, txn.BranchInfo{Vote: v})
		}
		return bs
	}
	for name, c := range map[string]struct {
		state    txn.State
		branches []txn.BranchInfo
		want     string
	}{
		"its only branch decides":      {txn.Preparing, branches(txn.VoteDelegated), "that the branch which decides "},
		"its only branch was ended":    {txn.Preparing, branches(txn.VoteEndedByApplication), "that the branch which decides "},
		"one of several decides":       {txn.Preparing, branches(0, txn.VoteDelegated, 0), "that the branch which decides "},
		"one of several was ended":     {txn.Preparing, branches(0, txn.VoteEndedByApplication), "which is not decided?"},
		"votes are collected":          {txn.Preparing, branches(0, txn.VotePrepared), "which is not decided?"},
		"one of several is appointed":  {txn.Active, branches(0, txn.VoteDelegated), "which is not decided?"},
		"one of several decided it so": {txn.RollingBack, branches(0, txn.VoteDelegated), "the branches in doubt of "},
		"the log decided to roll back": {txn.RollingBack, branches(0, txn.VotePrepared), "the branches in doubt of "},
	} {
		o := resolveOptions{rollback: true}
		if got := o.question(txn.Info{State: c.state, Branches: c.branches}); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s", name, got)
		}
	}
}
