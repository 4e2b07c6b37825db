package plan

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
		{"pg", participant.Branch{ID: 1, ClientCompletes: true}},
		{"maria", participant.Branch{ID: 2, ClientCompletes: true}},
	}
	mixed := []Branch{own[0], branches[1]}
	both := func(v Action, h WaitReason, wait time.Duration) []Step {
		return []Step{{1, "pg", v, h, wait}, {2, "maria", v, h, wait}}
	}
	// Branch 2 failed and is due at 13s; pg is probed at 12s.
	troubled := View{
		Now: 10 * sec, GraceExpired: true,
		NextTry: func(k Key, v Action) time.Duration {
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
		work PendingTx
		view View
		want []Step
	}{
		{"no state", PendingTx{Branches: branches}, View{}, nil},
		{"active", PendingTx{State: txn.Active, Branches: branches}, View{}, nil},
		{"committed", PendingTx{State: txn.Committed, Branches: branches}, View{}, nil},
		{"rolled back", PendingTx{State: txn.RolledBack, Branches: branches}, View{}, nil},
		{"no branches", PendingTx{State: txn.Committing}, View{}, []Step{}},
		{"committing", PendingTx{State: txn.Committing, Branches: branches}, View{}, both(Commit, Ready, 0)},
		{"rolling back", PendingTx{State: txn.RollingBack, Branches: branches}, View{}, both(Rollback, Ready, 0)},
		{"preparing", PendingTx{State: txn.Preparing, TimeLeft: 1, Branches: branches}, View{}, both(Prepare, Ready, 0)},
		{"preparing, too late", PendingTx{State: txn.Preparing, Branches: branches}, View{}, both(Prepare, Expired, 0)},
		{"delegated", PendingTx{State: txn.Preparing, TimeLeft: sec, Branches: sole}, View{}, []Step{{1, "pg", ResolveOutcome, Delegated, sec}}},
		{
			"delegated, not to be hurried",
			PendingTx{State: txn.Preparing, TimeLeft: sec, Branches: sole},
			troubled,
			[]Step{{1, "pg", ResolveOutcome, Delegated, sec}},
		},
		{"delegated, time is over", PendingTx{State: txn.Preparing, Branches: sole}, View{}, []Step{{1, "pg", ResolveOutcome, Ready, 0}}},
		{"delegated, unhealthy", PendingTx{State: txn.Preparing, Branches: sole}, troubled, []Step{{1, "pg", ResolveOutcome, Unhealthy, 2 * sec}}},
		{"delegated, decided", PendingTx{State: txn.RollingBack, Branches: sole}, View{}, []Step{{1, "pg", Rollback, Ready, 0}}},
		{"grace", PendingTx{State: txn.Committing, Branches: own}, View{}, both(Commit, ClientGrace, 0)},
		{"grace over", PendingTx{State: txn.Committing, Branches: own}, View{GraceExpired: true}, both(Commit, Ready, 0)},
		{
			"grace of one branch",
			PendingTx{State: txn.Committing, Branches: mixed},
			View{},
			[]Step{{1, "pg", Commit, ClientGrace, 0}, {2, "maria", Commit, Ready, 0}},
		},
		{
			"grace of one branch, the other in backoff",
			PendingTx{State: txn.Committing, Branches: mixed},
			View{Now: troubled.Now, NextTry: troubled.NextTry, NextProbe: troubled.NextProbe},
			[]Step{{1, "pg", Commit, ClientGrace, 0}, {2, "maria", Commit, Backoff, 3 * sec}},
		},
		{
			"grace after the application's rollback",
			PendingTx{State: txn.RollingBack, Cause: txn.CauseClient, Branches: own},
			View{},
			both(Rollback, ClientGrace, 0),
		},
		{
			"grace after a no",
			PendingTx{State: txn.RollingBack, Cause: txn.CauseVoteNo, Branches: mixed},
			View{},
			[]Step{{1, "pg", Rollback, ClientGrace, 0}, {2, "maria", Rollback, Ready, 0}},
		},
		{
			"no grace after a timeout",
			PendingTx{State: txn.RollingBack, Cause: txn.CauseTimeout, Branches: own},
			View{},
			both(Rollback, Ready, 0),
		},
		{
			"no grace after an operator's rollback",
			PendingTx{State: txn.RollingBack, Cause: txn.CauseOperator, Branches: own},
			View{},
			both(Rollback, Ready, 0),
		},
		{
			"no grace for votes",
			PendingTx{State: txn.Preparing, TimeLeft: 1, Branches: own},
			View{},
			both(Prepare, Ready, 0),
		},
		{
			"backoff and breaker",
			PendingTx{State: txn.Committing, Branches: branches},
			troubled,
			[]Step{{1, "pg", Commit, Unhealthy, 2 * sec}, {2, "maria", Commit, Backoff, 3 * sec}},
		},
		{
			"another verb's backoff does not count",
			PendingTx{State: txn.RollingBack, Branches: branches},
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

// TestPendingTxBranch: a call is made for the log's present state, not for the
// planned one.
func TestPendingTxBranch(t *testing.T) {
	sole := []Branch{{"pg", participant.Branch{ID: 1, Vote: txn.VoteDelegated}}}
	open := []Branch{{"pg", participant.Branch{ID: 1}}}
	for _, c := range []struct {
		verb Action
		work PendingTx
		want bool
	}{
		{Prepare, PendingTx{State: txn.Preparing, TimeLeft: 1, Branches: open}, true},
		{Prepare, PendingTx{State: txn.Preparing, Branches: open}, false},
		{Prepare, PendingTx{State: txn.Preparing, TimeLeft: 1, Branches: sole}, false},
		{Prepare, PendingTx{State: txn.RollingBack, TimeLeft: 1, Branches: open}, false},
		{ResolveOutcome, PendingTx{State: txn.Preparing, Branches: sole}, true},
		{ResolveOutcome, PendingTx{State: txn.Preparing, TimeLeft: 1, Branches: sole}, false},
		{ResolveOutcome, PendingTx{State: txn.Preparing, Branches: open}, false},
		{ResolveOutcome, PendingTx{State: txn.RollingBack, Branches: sole}, false},
		{Rollback, PendingTx{State: txn.RollingBack, Branches: sole}, true},
		{Commit, PendingTx{State: txn.Committing, Branches: open}, true},
		{Commit, PendingTx{State: txn.Committing}, false},
		{Commit, PendingTx{State: txn.Preparing, Branches: sole}, false},
	} {
		if _, got := c.work.Branch(1, c.verb); got != c.want {
			t.Errorf("%v of %+v: %v, want %v", c.verb, c.work, got, c.want)
		}
	}
}
