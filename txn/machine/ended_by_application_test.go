package machine

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// TestEveryCallerGetsEndedByApplication: once a branch was ended by the application's own statements,
// no call returns that nothing was applied. That holds whenever it becomes known, after every
// end of the branch, and after a snapshot.
func TestEveryCallerGetsEndedByApplication(t *testing.T) {
	rolledBack := acks(txn.BranchRolledBack)
	for name, history := range map[string][]Command{
		"undecided":                      {begin, typed1},
		"preparing":                      {begin, Commit{ID: one, Votes: []txn.BranchVote{yes1}}, typed1},
		"after its own vote":             {begin, Vote{ID: one, Votes: []txn.BranchVote{yes1}}, typed1},
		"after the rollback":             {begin, undo, typed1},
		"both":                           {begin, typed1, EndedByApplication{ID: one, Branch: 2, Reason: "END"}},
		"then ended":                     {begin, typed1, rolledBack},
		"ended before":                   {begin, undo, rolledBack, typed1},
		"a heuristic outcome before":     {begin, undo, ReportHeuristic{ID: one, Branch: 1, Heuristic: txn.HeuristicCommit}, typed1},
		"a heuristic outcome after":      {begin, typed1, ReportHeuristic{ID: one, Branch: 1, Heuristic: txn.HeuristicCommit}, ReportCompletion{one, []txn.CompletionReport{{Branch: 2, State: txn.BranchRolledBack}}}},
		"a heuristic outcome, forgotten": {begin, typed1, rolledBack, ReportHeuristic{ID: one, Branch: 1, Heuristic: txn.HeuristicCommit}, Forget{ID: one, Reason: "paid"}},
		"after a no":                     {begin, Vote{ID: one, Votes: []txn.BranchVote{no2}}, EndedByApplication{ID: one, Branch: 2, Reason: "END"}},
		"delegated":                      {sole, delegate, typed1, ack1(txn.BranchRolledBack)},
		"delegated, unknown":             {sole, delegate, typed1, ReportHeuristic{ID: one, Branch: 1, Heuristic: txn.HeuristicHazard}},
	} {
		m := bootstrapped(t, "bank", "stock")
		do(t, m, AddParticipant{admin.Participant{Name: "web", Kind: "web", CoordinatorPrepares: true}})
		do(t, m, history...)
		for where, m := range map[string]*Machine{"applied": m, "restored": copied(t, m)} {
			o := outcomeOf(t, m)
			x, _ := m.Get(one)
			if !o.EndedByApplication || !x.EndedByApplication() || o.State != txn.RollingBack && o.State != txn.RolledBack {
				t.Errorf("%s, %s: %+v, %+v", name, where, o, x)
			}
			for op, c := range map[string]Command{
				"commit": Commit{ID: one}, "rollback": undo, "vote": Vote{ID: one}, "delegate": delegate,
				"enlist": Enlist{ID: one, Branch: Branch{Participant: "stock"}}, "extend": Extend{one, time.Minute, 601, 700},
			} {
				r := m.Apply(Entry{Commands: []Command{c}}).Results[0]
				if !r.EndedByApplication || (r.Heuristic == 0) != (x.reportedHeuristic() == 0) {
					t.Errorf("%s, %s, %s: %+v", name, where, op, r)
				}
				err := r.ToError(op, one)
				if r.Code == OK {
					continue // the transaction is rolled back, as requested
				}
				if !errors.Is(err, txn.ErrEndedByApplication) || errors.Is(err, txn.ErrRolledBack) || errors.Is(err, txn.ErrHeuristic) != (x.reportedHeuristic() != 0) || txn.CodeOf(err) != txn.CodeInDoubt {
					t.Errorf("%s, %s, %s: it is told that %v", name, where, op, err)
				}
			}
		}
	}
}

// TestEndedByApplicationDecidesOnce: the vote decides to roll back, for its reason, and its
// branch is left for recovery to inspect; a repeat changes nothing.
func TestEndedByApplicationDecidesOnce(t *testing.T) {
	m := (scenario{make: []Command{begin}}).build(t)
	fx := m.Apply(Entry{Commands: []Command{typed1}})
	if !slices.Equal(fx.Pending, []txn.ID{one}) || len(fx.Changes) != 1 || fx.Changes[0].State != txn.RollingBack {
		t.Errorf("effects: %+v", fx)
	}
	x, _ := m.Get(one)
	if x.Cause != txn.CauseVoteNo || x.Reason != typed1.Reason || x.Branches[0].State != txn.BranchEnlisted || m.UnfinishedBranches("bank") != 1 {
		t.Errorf("%+v, %d open at bank", x, m.UnfinishedBranches("bank"))
	}
	hash := m.Hash()
	again := typed1
	again.Reason = "another"
	if fx := m.Apply(Entry{Commands: []Command{again}}); fx.Results[0].Code != OK || len(fx.Pending) != 0 || m.Hash() != hash {
		t.Errorf("the repeat: %+v", fx)
	}
}

// TestEndedByApplicationLeavesADelegatedDecisionToTheBranch: its end still decides, and a commit stays
// one; but recovery need not wait for the deadline.
func TestEndedByApplicationLeavesADelegatedDecisionToTheBranch(t *testing.T) {
	m := (scenario{make: []Command{sole, delegate}}).build(t)
	fx := m.Apply(Entry{Commands: []Command{typed1}})
	if !slices.Equal(fx.Pending, []txn.ID{one}) || fx.Results[0].State != txn.Preparing || !fx.Results[0].EndedByApplication {
		t.Errorf("effects: %+v", fx)
	}
	m = copied(t, m)
	if c := m.Counts(); c.Delegated != 1 || c.Undecided != 1 {
		t.Errorf("%+v", c)
	}
	do(t, m, ack1(txn.BranchCommitted), delegate)
	if o := outcomeOf(t, m); o.State != txn.Committed || !o.EndedByApplication || m.Counts().Delegated != 0 {
		t.Errorf("%+v, %+v", o, m.Counts())
	}
	if r := m.Apply(Entry{Commands: []Command{Commit{ID: one}}}).Results[0]; r.Code != OK {
		t.Errorf("commit again: %s", codeNames[r.Code])
	}
}

// TestLateEndByApplicationRestartsRetention: the outcome with the fact recorded takes the place of
// the one on the belt, and its retention begins again.
func TestLateEndByApplicationRestartsRetention(t *testing.T) {
	const retention = 100
	k := newRetentionFixture(t, Bootstrap{Interval: time.Second, Retention: retention * time.Second, Retain: 1 << 40})
	id := testID(1 << 40)
	b := begin
	b.ID, b.Expiry = id, 1000
	b.Branches = []Branch{{Participant: "bank"}, {Participant: "stock"}}
	done := ReportCompletion{id, []txn.CompletionReport{{Branch: 1, State: txn.BranchRolledBack}, {Branch: 2, State: txn.BranchRolledBack}}}
	do(t, k.Machine, b, Rollback{ID: id, Cause: txn.CauseClient}, done)
	k.Apply(Entry{Tick: 60})
	do(t, k.Machine, EndedByApplication{ID: id, Branch: 1, Reason: "COMMIT was typed"})
	if k.retained.ring.Len() != 1 || k.txs.Len() != 0 || k.branches.Len() != 0 || k.Counts().Finished != 1 {
		t.Errorf("%d on the belt, %d records, %d branches, %+v", k.retained.ring.Len(), k.txs.Len(), k.branches.Len(), k.Counts())
	}
	k.checkInvariants(t)
	k.Machine = restored(t, k.Machine)
	if o, _ := k.Lookup(id); !o.EndedByApplication {
		t.Errorf("restored: %+v", o)
	}
	if k.Apply(Entry{Tick: 60 + retention - 1}); !k.has(id) {
		t.Error("gone before the retention that began with the mark was over")
	}
	if k.Apply(Entry{Tick: 60 + retention + 2}); k.has(id) {
		t.Error("kept beyond the retention")
	}
}
