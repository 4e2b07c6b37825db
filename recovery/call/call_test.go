package call

import (
	"context"
	"errors"
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

// stubReader answers ReadOutcome; its other methods are not called.
type stubReader struct {
	participant.Participant
	participant.OutcomeResolver
	res   participant.Result
	known bool
	err   error
}

func (s stubReader) ReadOutcome(context.Context, participant.Branch) (participant.Result, bool, error) {
	return s.res, s.known, s.err
}

// TestReadOutcome: only a proved commit is a result.
func TestReadOutcome(t *testing.T) {
	away := errors.New("connection refused")
	yes := participant.Result{Outcome: participant.Committed, Detail: "its row"}
	for name, c := range map[string]struct {
		p    participant.Participant
		want plan.BranchResult
		err  error
	}{
		"committed":                {stubReader{res: yes, known: true}, plan.BranchResult{Branch: 3, State: txn.BranchCommitted, Detail: "its row"}, nil},
		"committed, not known":     {stubReader{res: yes}, plan.BranchResult{}, nil},
		"committed, with an error": {stubReader{res: yes, known: true, err: away}, plan.BranchResult{}, away},
		"rolled back":              {stubReader{res: participant.Result{Outcome: participant.RolledBack}, known: true}, plan.BranchResult{}, nil},
		"unknown":                  {stubReader{res: participant.Result{Outcome: participant.Unknown}, known: true}, plan.BranchResult{}, nil},
		"none":                     {stubReader{known: true}, plan.BranchResult{}, nil},
		"no reader":                {struct{ participant.Participant }{}, plan.BranchResult{}, nil},
	} {
		got, err := Do(t.Context(), c.p, participant.Branch{ID: 3}, plan.ReadOutcome)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %+v, %v; want %+v, %v", name, got, err, c.want, c.err)
		}
	}
}
