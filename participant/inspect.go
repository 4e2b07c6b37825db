package participant

import (
	"context"
	"time"
)

// PreparedDetails is a branch that a resource holds prepared, with what the resource's own
// tools tell about it.
type PreparedDetails struct {
	Prepared
	// Locks says for people what it has locked, for example "table account: row
	// exclusive". At most 20 lines; a last one says how many more there are.
	Locks []string
	// Waiters says for people who waits for those locks. At most 20 lines.
	Waiters []string
	// Orphaned says that the resource holds the locks of a branch that it does not
	// list as prepared: only a restart of the resource brings it back.
	Orphaned bool
}

// LockInspector is implemented by a Participant that can tell about everything that is
// prepared in the resource, whoever prepared it.
type LockInspector interface {
	// InspectLocks lists all that is prepared in the resource, of other owners too. It
	// touches nothing. It may be slow, and is called when a person asks.
	InspectLocks(ctx context.Context) ([]PreparedDetails, error)
}

// BranchReport is what a resource says about one branch now.
type BranchReport struct {
	// Prepared says that the branch is prepared there now, Since since when.
	Prepared bool
	Since    time.Time
	// Outcome is how it is known to have ended; zero when it is prepared or open,
	// [Unknown] when the resource cannot know.
	Outcome BranchOutcome
	// Detail says for people how that is known, and what the application's session
	// is doing, if it is there.
	Detail string
	// Locks and Waiters are as in [PreparedDetails].
	Locks, Waiters []string
}

// Inspector is implemented by a Participant that can be asked about one branch.
type Inspector interface {
	// Inspect says how the branch is now. It changes nothing. The error says why
	// the resource cannot be asked.
	Inspect(ctx context.Context, b Branch) (BranchReport, error)
}

// HealthLevel says how bad a [Check] is.
type HealthLevel uint8

const (
	// OK: as it should be.
	OK HealthLevel = iota + 1
	// Warning: it works, but will not for ever, or not for all.
	Warning
	// Failure: branches here fail, or cannot be recovered.
	Failure
)

// Check is one thing that was looked at to find out whether a resource is fit
// for global transactions.
type Check struct {
	Level HealthLevel
	// Subject is a few words that stay the same, for example
	// "max_prepared_transactions".
	Subject string
	// Message is what was found, and what follows from it.
	Message string
	// Remedy is what to do, to be pasted if possible; empty when nothing is to be done.
	Remedy string
}

// HealthChecker is implemented by a Participant that can look closer than Check.
type HealthChecker interface {
	// CheckHealth looks at everything that is known to go wrong. It changes nothing.
	// That something cannot be looked at is a diagnosis, not an error.
	CheckHealth(ctx context.Context) []Check
}

// Pruner is implemented by a Participant that keeps evidence of ended branches in
// the resource, which somebody has to clear away.
type Pruner interface {
	// Prune removes evidence of branches for which over says true, in the order of
	// the names it is given, at most limit of them. over asks the log, and is not
	// called with more than 1,000 names at once.
	Prune(ctx context.Context, limit int, over func(ctx context.Context, xids []string) ([]bool, error)) (removed int, err error)
}
