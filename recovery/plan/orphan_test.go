package plan

import (
	"testing"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

func TestOrphanAction(t *testing.T) {
	b := participant.Branch{ID: 1}
	for _, c := range []struct {
		known BranchStatus
		want  Action
	}{
		{BranchStatus{}, Rollback},
		{BranchStatus{State: txn.Active, Branch: b}, 0},
		{BranchStatus{State: txn.Active}, 0},
		{BranchStatus{State: txn.Preparing, Branch: b}, 0},
		{BranchStatus{State: txn.Committing, Branch: b, Unfinished: true}, 0},
		{BranchStatus{State: txn.Committing, Branch: b}, Commit},
		{BranchStatus{State: txn.Committed, Branch: b}, Commit},
		{BranchStatus{State: txn.Committed}, 0},
		{BranchStatus{State: txn.RollingBack, Branch: b, Unfinished: true}, 0},
		{BranchStatus{State: txn.RollingBack, Branch: b}, Rollback},
		{BranchStatus{State: txn.RolledBack, Branch: b}, Rollback},
		{BranchStatus{State: txn.RolledBack}, Rollback},
	} {
		if got := OrphanAction(c.known, 0, 0); got != c.want {
			t.Errorf("%+v: %v, want %v", c.known, got, c.want)
		}
	}
	const memory = time.Hour
	for _, c := range []struct {
		age, begun time.Duration
		want       Action
	}{
		{0, 2 * memory, Rollback},      // prepared late
		{memory - 1, memory, Rollback}, // the same, some time ago
		{memory, 2 * memory, 0},        // perhaps decided and forgotten
		{time.Minute, memory - 1, 0},   // the log has lost it
		{time.Minute, -time.Minute, 0}, // the same, and the clocks differ
		{2 * memory, 2 * memory, 0},
	} {
		if got := OrphanAction(BranchStatus{RetentionHorizon: memory}, c.age, c.begun); got != c.want {
			t.Errorf("prepared for %v, begun %v ago: %v, want %v", c.age, c.begun, got, c.want)
		}
	}
}
