package participant

import (
	"context"
	"time"
)

// PreparedDetails is a prepared branch of a participant, with what the participant's own tools
// report about it.
type PreparedDetails struct {
	Prepared
	// Locks describes what it has locked, for example "table account: row exclusive". At most
	// 20 lines; the last one then says how many more there are.
	Locks []string
	// Waiters describes what waits for those locks. At most 20 lines.
	Waiters []string
	// Orphaned says that the participant holds the locks of a branch that it does not list as
	// prepared: only a restart of the participant brings the branch back.
	Orphaned bool
}

// LockInspector is implemented by a Participant that can report on everything that is prepared
// there, of any owner.
type LockInspector interface {
	// InspectLocks lists all that is prepared at the participant, of other owners too. It
	// changes nothing. It may be slow, and is called when an operator asks.
	InspectLocks(ctx context.Context) ([]PreparedDetails, error)
}

// BranchReport is the present state of one branch at its participant.
type BranchReport struct {
	// Prepared says that the branch is prepared there now, Since since when.
	Prepared bool
	Since    time.Time
	// Outcome is how it is known to have ended; zero when it is prepared or open, [Unknown]
	// when the participant cannot know.
	Outcome BranchOutcome
	// Detail says how that is known, and what the application's connection is doing, if it is
	// there.
	Detail string
	// Locks and Waiters are as in [PreparedDetails].
	Locks, Waiters []string
}

// Inspector is implemented by a Participant that can be asked about one branch.
type Inspector interface {
	// Inspect returns the present state of the branch. It changes nothing. The error says why
	// the participant cannot be asked.
	Inspect(ctx context.Context, b Branch) (BranchReport, error)
}

// HealthLevel is the severity of a [Check].
type HealthLevel uint8

const (
	// OK: as it should be.
	OK HealthLevel = iota + 1
	// Warning: it works, but will not for ever, or not for all.
	Warning
	// Failure: branches here fail, or cannot be recovered.
	Failure
)

// Check is the result of one health check of a participant.
type Check struct {
	Level HealthLevel
	// Subject is a few words that stay the same, for example
	// "max_prepared_transactions".
	Subject string
	// Message is what was found, and what follows from it.
	Message string
	// Remedy is what to do: in words, or a statement for the participant's own console or a
	// command for its host, but no command line of txmgr. It is empty when nothing is to be done.
	Remedy string
	// Call and CallParticipant are those of [admin.Check]. Both may be empty.
	Call, CallParticipant string
}

// HealthChecker is implemented by a Participant that can check more than Check does.
type HealthChecker interface {
	// CheckHealth checks everything that is known to go wrong. It changes nothing. A check that
	// cannot be made is a result, not an error.
	CheckHealth(ctx context.Context) []Check
}

// Pruner is implemented by a Participant that keeps commit records in the database, which have
// to be removed some time.
type Pruner interface {
	// Prune removes the commit records of branches for which over returns true, in the order of
	// the names that over is given, at most limit of them. over asks the log, and is not called
	// with more than 1,000 names at once.
	Prune(ctx context.Context, limit int, over func(ctx context.Context, xids []string) ([]bool, error)) (removed int, err error)
}
