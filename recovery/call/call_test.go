package call

import (
	"testing"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/recovery/plan"
	"github.com/txmgr/txmgr/txn"
)

func TestToResult(t *testing.T) {
	const (
		committed, rolledBack, unknown = participant.Committed, participant.RolledBack, participant.Unknown
	)
	for _, c := range []struct {
		verb   plan.Action
		ending participant.BranchOutcome
		want   plan.BranchResult
	}{
		{plan.Commit, committed, plan.BranchResult{Branch: 3, State: txn.BranchCommitted, Detail: "d"}},
		{plan.Commit, rolledBack, plan.BranchResult{Branch: 3, Heuristic: txn.HeuristicRollback, Detail: "d"}},
		{plan.Commit, unknown, plan.BranchResult{Branch: 3, Heuristic: txn.HeuristicHazard, Detail: "d"}},
		{plan.Rollback, rolledBack, plan.BranchResult{Branch: 3, State: txn.BranchRolledBack, Detail: "d"}},
		{plan.Rollback, committed, plan.BranchResult{Branch: 3, Heuristic: txn.HeuristicCommit, Detail: "d"}},
		{plan.Rollback, unknown, plan.BranchResult{Branch: 3, Heuristic: txn.HeuristicHazard, Detail: "d"}},
		{plan.ResolveOutcome, committed, plan.BranchResult{Branch: 3, State: txn.BranchCommitted, Detail: "d"}},
		{plan.ResolveOutcome, rolledBack, plan.BranchResult{Branch: 3, State: txn.BranchRolledBack, Detail: "d"}},
		{plan.ResolveOutcome, unknown, plan.BranchResult{Branch: 3, Heuristic: txn.HeuristicHazard, Detail: "d"}},
	} {
		got, err := toResult(3, c.verb, participant.Result{Outcome: c.ending, Detail: "d"})
		if err != nil || got != c.want {
			t.Errorf("judge(%v, %v) = %+v, %v; want %+v", c.verb, c.ending, got, err, c.want)
		}
	}
	for _, v := range []plan.Action{plan.Commit, plan.Rollback, plan.ResolveOutcome} {
		for _, e := range []participant.BranchOutcome{0, 4} {
			if got, err := toResult(3, v, participant.Result{Outcome: e}); err == nil {
				t.Errorf("judge(%v, %v) = %+v, want an error", v, e, got)
			}
		}
	}
}
