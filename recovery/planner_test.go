package recovery

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

func TestPlan(t *testing.T) {
	const sec = time.Second
	branches := []Branch{
		{"pg", participant.Branch{ID: 1}},
		{"maria", participant.Branch{ID: 2}},
	}
	sole := []Branch{{"pg", participant.Branch{ID: 1, Vote: txn.VoteDelegated}}}
	own := []Branch{
		{"pg", participant.Branch{ID: 1, OwnPhaseTwo: true}},
		{"maria", participant.Branch{ID: 2, OwnPhaseTwo: true}},
	}
	mixed := []Branch{own[0], branches[1]}
	both := func(v Verb, h Hold, wait time.Duration) []Step {
		return []Step{{1, "pg", v, h, wait}, {2, "maria", v, h, wait}}
	}
	// Branch 2 failed and is due at 13s; pg is probed at 12s.
	troubled := View{
		Now: 10 * sec, Graced: true,
		NextTry: func(k Key, v Verb) time.Duration {
			if k.Branch == 2 && v == Commit {
				return 13 * sec
			}
			return 0
		},
		NextProbe: func(p string) time.Duration {
			if p == "pg" {
				return 12 * sec
			}
			return 0
		},
	}
	for _, c := range []struct {
		name string
		work Work
		view View
		want []Step
	}{
		{"no state", Work{Branches: branches}, View{}, nil},
		{"active", Work{State: txn.Active, Branches: branches}, View{}, nil},
		{"committed", Work{State: txn.Committed, Branches: branches}, View{}, nil},
		{"rolled back", Work{State: txn.RolledBack, Branches: branches}, View{}, nil},
		{"no branches", Work{State: txn.Committing}, View{}, []Step{}},
		{"committing", Work{State: txn.Committing, Branches: branches}, View{}, both(Commit, Ready, 0)},
		{"rolling back", Work{State: txn.RollingBack, Branches: branches}, View{}, both(Rollback, Ready, 0)},
		{"preparing", Work{State: txn.Preparing, TimeLeft: 1, Branches: branches}, View{}, both(Prepare, Ready, 0)},
		{"preparing, too late", Work{State: txn.Preparing, Branches: branches}, View{}, both(Prepare, Expired, 0)},
		{"delegated", Work{State: txn.Preparing, TimeLeft: sec, Branches: sole}, View{}, []Step{{1, "pg", Settle, Delegated, sec}}},
		{
			"delegated, not to be hurried",
			Work{State: txn.Preparing, TimeLeft: sec, Branches: sole},
			troubled,
			[]Step{{1, "pg", Settle, Delegated, sec}},
		},
		{"delegated, time is over", Work{State: txn.Preparing, Branches: sole}, View{}, []Step{{1, "pg", Settle, Ready, 0}}},
		{"delegated, unhealthy", Work{State: txn.Preparing, Branches: sole}, troubled, []Step{{1, "pg", Settle, Unhealthy, 2 * sec}}},
		{"delegated, decided", Work{State: txn.RollingBack, Branches: sole}, View{}, []Step{{1, "pg", Rollback, Ready, 0}}},
		{"grace", Work{State: txn.Committing, Branches: own}, View{}, both(Commit, Grace, 0)},
		{"grace over", Work{State: txn.Committing, Branches: own}, View{Graced: true}, both(Commit, Ready, 0)},
		{
			"grace of one branch",
			Work{State: txn.Committing, Branches: mixed},
			View{},
			[]Step{{1, "pg", Commit, Grace, 0}, {2, "maria", Commit, Ready, 0}},
		},
		{
			"grace of one branch, the other in backoff",
			Work{State: txn.Committing, Branches: mixed},
			View{Now: troubled.Now, NextTry: troubled.NextTry, NextProbe: troubled.NextProbe},
			[]Step{{1, "pg", Commit, Grace, 0}, {2, "maria", Commit, Backoff, 3 * sec}},
		},
		{
			"grace after the application's rollback",
			Work{State: txn.RollingBack, Cause: txn.CauseClient, Branches: own},
			View{},
			both(Rollback, Grace, 0),
		},
		{
			"grace after a no",
			Work{State: txn.RollingBack, Cause: txn.CauseVoteNo, Branches: mixed},
			View{},
			[]Step{{1, "pg", Rollback, Grace, 0}, {2, "maria", Rollback, Ready, 0}},
		},
		{
			"no grace after a timeout",
			Work{State: txn.RollingBack, Cause: txn.CauseTimeout, Branches: own},
			View{},
			both(Rollback, Ready, 0),
		},
		{
			"no grace after an operator's rollback",
			Work{State: txn.RollingBack, Cause: txn.CauseOperator, Branches: own},
			View{},
			both(Rollback, Ready, 0),
		},
		{
			"no grace for votes",
			Work{State: txn.Preparing, TimeLeft: 1, Branches: own},
			View{},
			both(Prepare, Ready, 0),
		},
		{
			"backoff and breaker",
			Work{State: txn.Committing, Branches: branches},
			troubled,
			[]Step{{1, "pg", Commit, Unhealthy, 2 * sec}, {2, "maria", Commit, Backoff, 3 * sec}},
		},
		{
			"another verb's backoff does not count",
			Work{State: txn.RollingBack, Branches: branches},
			troubled,
			[]Step{{1, "pg", Rollback, Unhealthy, 2 * sec}, {2, "maria", Rollback, Ready, 0}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Plan(c.work, c.view)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestWorkAsked: a call is made for what the log wants then, not for what was
// planned.
func TestWorkAsked(t *testing.T) {
	sole := []Branch{{"pg", participant.Branch{ID: 1, Vote: txn.VoteDelegated}}}
	open := []Branch{{"pg", participant.Branch{ID: 1}}}
	for _, c := range []struct {
		verb Verb
		work Work
		want bool
	}{
		{Prepare, Work{State: txn.Preparing, TimeLeft: 1, Branches: open}, true},
		{Prepare, Work{State: txn.Preparing, Branches: open}, false},
		{Prepare, Work{State: txn.Preparing, TimeLeft: 1, Branches: sole}, false},
		{Prepare, Work{State: txn.RollingBack, TimeLeft: 1, Branches: open}, false},
		{Settle, Work{State: txn.Preparing, Branches: sole}, true},
		{Settle, Work{State: txn.Preparing, TimeLeft: 1, Branches: sole}, false},
		{Settle, Work{State: txn.Preparing, Branches: open}, false},
		{Settle, Work{State: txn.RollingBack, Branches: sole}, false},
		{Rollback, Work{State: txn.RollingBack, Branches: sole}, true},
		{Commit, Work{State: txn.Committing, Branches: open}, true},
		{Commit, Work{State: txn.Committing}, false},
		{Commit, Work{State: txn.Preparing, Branches: sole}, false},
	} {
		if _, got := c.work.branch(item{Key{Branch: 1}, c.verb}); got != c.want {
			t.Errorf("%v of %+v: %v, want %v", c.verb, c.work, got, c.want)
		}
	}
}

func TestJudge(t *testing.T) {
	const (
		committed, rolledBack, unknown = participant.Committed, participant.RolledBack, participant.Unknown
	)
	for _, c := range []struct {
		verb   Verb
		ending participant.Ending
		want   Report
	}{
		{Commit, committed, Report{Branch: 3, State: txn.BranchCommitted, Detail: "d"}},
		{Commit, rolledBack, Report{Branch: 3, Hazard: txn.HazardRolledBack, Detail: "d"}},
		{Commit, unknown, Report{Branch: 3, Hazard: txn.HazardUnknown, Detail: "d"}},
		{Rollback, rolledBack, Report{Branch: 3, State: txn.BranchRolledBack, Detail: "d"}},
		{Rollback, committed, Report{Branch: 3, Hazard: txn.HazardCommitted, Detail: "d"}},
		{Rollback, unknown, Report{Branch: 3, Hazard: txn.HazardUnknown, Detail: "d"}},
		{Settle, committed, Report{Branch: 3, State: txn.BranchCommitted, Detail: "d"}},
		{Settle, rolledBack, Report{Branch: 3, State: txn.BranchRolledBack, Detail: "d"}},
		{Settle, unknown, Report{Branch: 3, Hazard: txn.HazardUnknown, Detail: "d"}},
	} {
		got, err := judge(3, c.verb, participant.Result{Ending: c.ending, Detail: "d"})
		if err != nil || got != c.want {
			t.Errorf("judge(%v, %v) = %+v, %v; want %+v", c.verb, c.ending, got, err, c.want)
		}
	}
	for _, v := range []Verb{Commit, Rollback, Settle} {
		for _, e := range []participant.Ending{0, 4} {
			if got, err := judge(3, v, participant.Result{Ending: e}); err == nil {
				t.Errorf("judge(%v, %v) = %+v, want an error", v, e, got)
			}
		}
	}
}
