package plan

import (
	"testing"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

func TestReadsDecider(t *testing.T) {
	const grace = time.Second
	first, second := participant.Branch{ID: 1}, participant.Branch{ID: 2}
	decider := Branch{Participant: "bank", Branch: second}
	for name, c := range map[string]struct {
		known    BranchStatus
		prepared time.Duration
		want     bool
	}{
		"prepared for long":        {BranchStatus{State: txn.Active, Branch: first, Decider: decider}, grace + 1, true},
		"within the grace":         {BranchStatus{State: txn.Active, Branch: first, Decider: decider}, grace, false},
		"its clock is wrong":       {BranchStatus{State: txn.Active, Branch: first, Decider: decider}, -time.Hour, false},
		"the log decides":          {BranchStatus{State: txn.Active, Branch: first}, time.Hour, false},
		"is the decider":           {BranchStatus{State: txn.Active, Branch: second, Decider: decider}, time.Hour, false},
		"is not of it":             {BranchStatus{State: txn.Active, Decider: decider}, time.Hour, false},
		"its end is found out":     {BranchStatus{State: txn.Preparing, Branch: first, Decider: decider}, time.Hour, false},
		"it is decided":            {BranchStatus{State: txn.Committing, Branch: first, Decider: decider, Unfinished: true}, time.Hour, false},
		"the log does not know it": {BranchStatus{}, time.Hour, false},
	} {
		if got := ReadsDecider(c.known, c.prepared, grace); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		if OrphanAction(c.known, c.prepared, c.prepared) != 0 && c.known.State != 0 {
			t.Errorf("%s: the sweep would end it", name)
		}
	}
}
