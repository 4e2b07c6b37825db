package scan

import (
	"fmt"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/recovery/plan"
	"github.com/txmgr/txmgr/txn/admin"
)

// The classes of scan results, as operators see them.
const (
	ClassLeave         = "leave"
	classCommit        = "commit"
	classRollback      = "rollback"
	classForeign       = "foreign"
	classOrphanedLocks = "orphaned-locks"
	ClassUnreachable   = "unreachable"
)

// classify classifies one branch. The action is zero when the branch is to be left.
func classify(name string, b preparedBranch, k plan.BranchStatus) Orphan {
	o := Orphan{
		Branch: k.Branch,
		Action: plan.OrphanAction(k, age(b.Prepared), time.Since(b.TX.Time())),
		Result: admin.ScanResult{
			Participant: name, XID: b.XID, ID: b.TX, Branch: b.Key.Branch,
			Since: b.Since, Owner: b.Owner, State: k.State, Class: ClassLeave,
		},
	}
	switch o.Action {
	case plan.Commit:
		o.Result.Class = classCommit
	case plan.Rollback:
		o.Result.Class = classRollback
	}
	switch lost := time.Since(b.TX.Time()) < k.RetentionHorizon; {
	case k.State == 0 && o.Action == 0 && lost:
		o.Result.Error = fmt.Sprintf("begun within the time that the log remembers (%v), and the log does not know it: it was restored from an old copy, "+
			"or another coordinator has its cluster's name; compare with the other participants, and end it there by hand", k.RetentionHorizon)
	case k.State == 0 && o.Action == 0:
		o.Result.Error = fmt.Sprintf("prepared for longer than the log remembers (%v): it may have been decided to commit, "+
			"and forgotten; compare with the other participants, and end it there by hand", k.RetentionHorizon)
	}
	// The name at the participant is the truth about the branch, whatever the log has.
	o.Branch.TX, o.Branch.ID, o.Branch.XID = b.TX, b.Branch, b.XID
	return o
}

// age is the longest time for which a branch may have been prepared; zero when the
// participant does not report it. An age that is too low would roll back a branch
// whose commit may be forgotten, so the possible difference between the participant's
// clock and this one is added where both are needed.
func age(p participant.Prepared) time.Duration {
	switch {
	case p.Age > 0:
		return p.Age
	case p.Since.IsZero():
		return 0
	}
	return time.Since(p.Since) + ClockSlack
}

// preparedFor is how long a branch has been prepared; the time since its transaction began where the participant
// does not report it. Nothing but the time of a question depends on it, so clocks may differ.
func preparedFor(b preparedBranch) time.Duration {
	switch {
	case b.Age > 0:
		return b.Age
	case b.Since.IsZero():
		return time.Since(b.TX.Time())
	}
	return time.Since(b.Since)
}

// ClockSlack is the assumed largest difference between two clocks that have to be compared:
// the coordinator's, a participant's, and those that make ids.
const ClockSlack = time.Minute
