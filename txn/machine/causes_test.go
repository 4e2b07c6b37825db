package machine

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/txn"
)

// TestEveryCauseIsCounted: the machine counts rollbacks by what it records as their cause.
func TestEveryCauseIsCounted(t *testing.T) {
	m := bootstrapped(t, "orders", "stock")
	for i := range uint64(5) {
		m.Apply(Entry{Commands: []Command{Begin{ID: testID(i + 1), Timeout: time.Second, Expiry: 10}}})
	}
	session := sessionID(1)
	m.Apply(Entry{Commands: []Command{
		Enlist{ID: testID(2), Branch: Branch{Participant: "orders"}},
		OpenSession{ID: session, TTL: time.Second},
		Begin{ID: testID(6), Timeout: time.Second, Expiry: 100, Session: session},
		Rollback{ID: testID(1), Cause: txn.CauseClient},
		Rollback{ID: testID(1), Cause: txn.CauseClient},
		Vote{ID: testID(2), Votes: []txn.BranchVote{{Branch: 1, Vote: txn.VoteNo}}},
		Rollback{ID: testID(3), Cause: txn.CauseOperator},
		ExpireSessions{IDs: []txn.SessionID{session}},
	}})
	m.Apply(Entry{Tick: 10})
	want := ByCause{
		txn.CauseClient: 1, txn.CauseTimeout: 2, txn.CauseVoteNo: 1, txn.CauseSessionExpired: 1, txn.CauseOperator: 1,
	}
	for name, m := range map[string]*Machine{"applied": m, "restored": copied(t, m)} {
		if d := cmp.Diff(want, m.Counts().RolledBack); d != "" || m.Counts().RolledBack.Sum() != 6 {
			t.Errorf("%s, rollbacks by cause (-want +got):\n%s", name, d)
		}
	}
}

// TestEffectsHaveHeuristicOutcomesAndOperators: each heuristic outcome and each action of an operator
// once, however often the command comes.
func TestEffectsHaveHeuristicOutcomesAndOperators(t *testing.T) {
	m := bootstrapped(t, "orders", "stock")
	one := testID(1)
	m.Apply(Entry{Commands: []Command{
		Begin{ID: one, Timeout: time.Second, Expiry: 10, Branches: []Branch{{Participant: "orders"}, {Participant: "stock"}}},
		Commit{ID: one, Votes: []txn.BranchVote{{Branch: 1, Vote: txn.VotePrepared}, {Branch: 2, Vote: txn.VotePrepared}}},
	}})
	proof := ReportHeuristic{ID: one, Branch: 2, Heuristic: txn.HeuristicRollback, Detail: "pg_xact_status(1) = aborted"}
	resolve := Resolve{ID: one, Branch: 1, Outcome: txn.BranchRolledBack, By: "ann", Reason: "looked"}
	fx := m.Apply(Entry{Index: 7, Commands: []Command{proof, proof, resolve, resolve}})
	want := []BranchHeuristic{
		{ID: one, Branch: 2, Participant: "stock", Heuristic: txn.HeuristicRollback, Detail: proof.Detail},
		{ID: one, Branch: 1, Participant: "orders", Heuristic: txn.HeuristicRollback, Detail: "said by ann: looked"},
	}
	if d := cmp.Diff(want, fx.Heuristics); d != "" {
		t.Errorf("heuristic outcomes (-want +got):\n%s", d)
	}
	if len(fx.Audit) != 1 || fx.Audit[0].Action != ActionResolve || fx.Audit[0].By != "ann" || fx.Audit[0].Index != 7 {
		t.Errorf("audit: %+v", fx.Audit)
	}
	if fx := m.Apply(Entry{Commands: []Command{proof}}); len(fx.Heuristics)+len(fx.Audit) != 0 {
		t.Errorf("repeated: %+v", fx)
	}
}

// TestEffectsUntilTheDecision: a begin and each state after it is a change, and a branch that
// the coordinator has to prepare is pending, each once.
func TestEffectsUntilTheDecision(t *testing.T) {
	m := (scenario{}).build(t)
	some := Commit{ID: one, Votes: []txn.BranchVote{yes1}}
	for i, step := range []struct {
		do      Command
		changes []Change
		work    []txn.ID
	}{
		{begin, []Change{{ID: one, State: txn.Active}}, nil},
		{begin, nil, nil},
		{some, []Change{{ID: one, State: txn.Preparing}}, []txn.ID{one}},
		{some, nil, nil},
		{Vote{ID: one, Votes: []txn.BranchVote{yes2}}, []Change{{ID: one, State: txn.Committing}}, []txn.ID{one}},
	} {
		fx := do(t, m, step.do)
		if !slices.Equal(fx.Changes, step.changes) || !slices.Equal(fx.Pending, step.work) {
			t.Errorf("step %d: changes %+v and work %v; want %+v and %v", i, fx.Changes, fx.Pending, step.changes, step.work)
		}
	}
}
