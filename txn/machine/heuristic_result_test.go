package machine

import (
	"errors"
	"testing"
	"time"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// TestEveryCallerGetsTheHeuristicOutcome: a rollback with a branch that is, or may be, committed is never
// reported as one of which nothing was applied, also when an operator has forgotten the
// heuristic outcome.
func TestEveryCallerGetsTheHeuristicOutcome(t *testing.T) {
	found := ReportHeuristic{ID: one, Branch: 1, Heuristic: txn.HeuristicCommit, Detail: "it is committed there"}
	unknown := ReportHeuristic{ID: one, Branch: 1, Heuristic: txn.HeuristicHazard}
	rest := ReportCompletion{one, []txn.CompletionReport{{Branch: 2, State: txn.BranchRolledBack}}}
	forget := Forget{ID: one, Reason: "paid"}
	for name, history := range map[string][]Command{
		"rolling back":           {begin, undo, found},
		"rolled back":            {begin, undo, found, rest},
		"unknown":                {begin, undo, unknown, rest},
		"late":                   {begin, undo, acks(txn.BranchRolledBack), found},
		"forgotten":              {begin, undo, found, rest, forget},
		"unknown, forgotten":     {begin, undo, unknown, rest, forget},
		"late, forgotten":        {begin, undo, acks(txn.BranchRolledBack), found, forget},
		"delegated, unknown":     {sole, delegate, unknown},
		"a person's word":        {begin, undo, said(1, txn.BranchCommitted), rest},
		"a person's, forgotten":  {begin, undo, said(1, txn.BranchCommitted), rest, forget},
		"a wrong acknowledgment": {begin, undo, ack1(txn.BranchRolledBack), found},
	} {
		m := bootstrapped(t, "bank", "stock")
		do(t, m, AddParticipant{admin.Participant{Name: "web", Kind: "web", CoordinatorPrepares: true}})
		do(t, m, history...)
		for where, m := range map[string]*Machine{"applied": m, "restored": copied(t, m)} {
			waited, _ := m.Get(one)
			if err := waited.RollbackError("commit"); !errors.Is(err, txn.ErrHeuristic) || errors.Is(err, txn.ErrRolledBack) {
				t.Errorf("%s, %s: who has waited is told that %v", name, where, err)
			}
			for op, c := range map[string]Command{
				"rollback": undo, "a no": Vote{ID: one, Votes: []txn.BranchVote{{Branch: 1, Vote: txn.VoteNo}}},
				"commit": Commit{ID: one}, "vote": Vote{ID: one}, "delegate": delegate,
				"enlist": Enlist{ID: one, Branch: Branch{Participant: "stock"}}, "extend": Extend{one, time.Minute, 601, 700},
			} {
				r := m.Apply(Entry{Commands: []Command{c}}).Results[0]
				err := r.ToError(op, one)
				if r.Code == OK && r.Heuristic != 0 && (op == "rollback" || op == "a no") {
					continue // the transaction is rolled back, as requested, and the heuristic outcome is reported
				}
				if r.Code != Decided || !errors.Is(err, txn.ErrHeuristic) || errors.Is(err, txn.ErrRolledBack) || txn.CodeOf(err) != txn.CodeInDoubt {
					t.Errorf("%s, %s, %s: it is told that %v", name, where, op, err)
				}
			}
		}
	}
}
