package plan

import "time"

// OrphanAction returns what has to be done with a branch that has been prepared for age,
// as far as that is known, and whose transaction began that long ago; zero means
// to leave it.
func OrphanAction(k BranchStatus, age, begun time.Duration) Action {
	switch {
	case k.State == 0 && k.RetentionHorizon > 0 && (age >= k.RetentionHorizon || begun < k.RetentionHorizon):
		return 0 // its decision, if any, may be forgotten, or lost: see invariant 7 of package recovery
	case k.State == 0:
		return Rollback // forgotten since, or never begun: it will never be committed
	case !k.State.Decided() || k.Unfinished:
		return 0
	case !k.State.Commits():
		return Rollback
	case k.Branch.ID == 0:
		return 0 // it never voted: only an operator can say what it is
	}
	return Commit
}
