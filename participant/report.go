package participant

import (
	"context"
	"time"
)

// Held is a branch that a resource holds prepared, with what the resource's own
// tools tell about it.
type Held struct {
	Prepared
	// Locks says for people what it has locked, for example "table account: row
	// exclusive". At most 20 lines; a last one says how many more there are.
	Locks []string
	// Waiters says for people who waits for those locks. At most 20 lines.
	Waiters []string
	// Ghost says that the resource holds the locks of a branch that it does not
	// list as prepared: only a restart of the resource brings it back.
	Ghost bool
}

// Surveyor is implemented by a Participant that can tell about everything that is
// prepared in the resource, whoever prepared it.
type Surveyor interface {
	// Survey lists all that is prepared in the resource, of other owners too. It
	// touches nothing. It may be slow, and is called when a person asks.
	Survey(ctx context.Context) ([]Held, error)
}

// Testimony is what a resource says about one branch now.
type Testimony struct {
	// Prepared says that the branch is prepared there now, Since since when.
	Prepared bool
	Since    time.Time
	// Ending is how it is known to have ended; zero when it is prepared or open,
	// [Unknown] when the resource cannot know.
	Ending Ending
	// Detail says for people how that is known, and what the application's session
	// is doing, if it is there.
	Detail string
	// Locks and Waiters are as in [Held].
	Locks, Waiters []string
}

// Inspector is implemented by a Participant that can be asked about one branch.
type Inspector interface {
	// Inspect says how the branch is now. It changes nothing. The error says why
	// the resource cannot be asked.
	Inspect(ctx context.Context, b Branch) (Testimony, error)
}

// Level says how bad a [Diagnosis] is.
type Level uint8

const (
	// Fine: as it should be.
	Fine Level = iota + 1
	// Warning: it works, but will not for ever, or not for all.
	Warning
	// Failure: branches here fail, or cannot be recovered.
	Failure
)

// Diagnosis is one thing that was looked at to find out whether a resource is fit
// for global transactions.
type Diagnosis struct {
	Level Level
	// Subject is a few words that stay the same, for example
	// "max_prepared_transactions".
	Subject string
	// Found is what was found, and what follows from it.
	Found string
	// Fix is what to do, to be pasted if possible; empty when nothing is to be done.
	Fix string
}

// Examiner is implemented by a Participant that can look closer than Check.
type Examiner interface {
	// Examine looks at everything that is known to go wrong. It changes nothing.
	// That something cannot be looked at is a diagnosis, not an error.
	Examine(ctx context.Context) []Diagnosis
}

// Tidier is implemented by a Participant that keeps evidence of ended branches in
// the resource, which somebody has to clear away.
type Tidier interface {
	// Tidy removes evidence of branches for which over says true, in the order of
	// the names it is given, at most limit of them. over asks the log, and is not
	// called with more than 1,000 names at once.
	Tidy(ctx context.Context, limit int, over func(ctx context.Context, xids []string) ([]bool, error)) (removed int, err error)
}
