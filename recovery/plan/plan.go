package plan

import (
	"fmt"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// Action is what has to be done with a branch. Commits and prepares go first: a commit
// frees locks and a client waits for it, a prepare has a deadline. A rollback
// frees locks, and so does resolving an outcome.
type Action uint8

// The actions.
const (
	Commit Action = iota + 1
	Prepare
	Rollback
	// ResolveOutcome: the decision was delegated to the branch, and its deadline has passed:
	// see [participant.OutcomeResolver].
	ResolveOutcome
	// ReadOutcome: the branch is appointed, and other branches have been prepared for long: it may
	// have ended, see [participant.OutcomeReader]. It belongs to no plan: see [ReadsDecider].
	ReadOutcome
)

var actionNames = []string{"none", "commit", "prepare", "rollback", "resolve outcome", "read outcome"}

// String returns the action's name, for example "commit".
func (v Action) String() string {
	if int(v) < len(actionNames) {
		return actionNames[v]
	}
	return fmt.Sprintf("(%d)", uint8(v))
}

// WaitReason is why a step has to wait.
type WaitReason uint8

// The reasons to wait.
const (
	// Ready: nothing to wait for but a free worker.
	Ready WaitReason = iota
	// ClientGrace: the client is given time to complete its own branches.
	ClientGrace
	// Backoff: an attempt failed; the next one is due later.
	Backoff
	// Unhealthy: the participant's breaker is open.
	Unhealthy
	// Expired: the deadline has passed; a decision of the log will follow.
	Expired
	// Delegated: the application is about to end the branch in one phase, and has
	// until the deadline.
	Delegated
)

var waitReasonNames = []string{"ready", "grace", "backoff", "participant unhealthy", "deadline over", "delegated"}

// String returns the reason, for the operator.
func (h WaitReason) String() string {
	if int(h) < len(waitReasonNames) {
		return waitReasonNames[h]
	}
	return fmt.Sprintf("(%d)", uint8(h))
}

// Step is what has to be done with one branch, and from when on.
type Step struct {
	Branch      txn.BranchID
	Participant string
	Action      Action
	WaitReason  WaitReason
	Wait        time.Duration // from now; 0 when WaitReason is Ready, ClientGrace or Expired
}

// View is what a plan depends on besides the log. Times are on recovery's
// monotonic scale. The zero View delays nothing except for grace periods.
type View struct {
	Now time.Duration
	// GraceExpired: the grace has expired or was waived, for all branches.
	GraceExpired bool
	// NextTry is when a branch may be tried again. Nil means at once.
	NextTry func(k Key, v Action) time.Duration
	// NextProbe is when a participant may be called again. Nil means at once.
	NextProbe func(participant string) time.Duration
}

// Plan computes what has to be done for a transaction: one step for each unfinished
// branch, in their order. It is pure, and empty for a state without work.
func Plan(w PendingTx, v View) []Step {
	if w.Action(&Branch{}) == 0 {
		return nil
	}
	steps := make([]Step, 0, len(w.Branches))
	for i := range w.Branches {
		b := &w.Branches[i]
		s := Step{Branch: b.ID, Participant: b.Participant, Action: w.Action(b)}
		s.WaitReason, s.Wait = v.waitReason(&w, b, s.Action)
		steps = append(steps, s)
	}
	return steps
}

func (v View) waitReason(w *PendingTx, b *Branch, action Action) (WaitReason, time.Duration) {
	switch {
	case action == Prepare && w.TimeLeft <= 0:
		return Expired, 0
	case action == ResolveOutcome && w.TimeLeft > 0:
		return Delegated, w.TimeLeft
	case !v.GraceExpired && w.LeftToClient(b):
		return ClientGrace, 0
	}
	if v.NextTry != nil {
		if wait := v.NextTry(Key{w.ID, b.ID}, action) - v.Now; wait > 0 {
			return Backoff, wait
		}
	}
	if v.NextProbe != nil {
		if wait := v.NextProbe(b.Participant) - v.Now; wait > 0 {
			return Unhealthy, wait
		}
	}
	return Ready, 0
}

// Action returns what a branch of the transaction needs; zero for nothing.
func (w *PendingTx) Action(b *Branch) Action {
	switch {
	case w.State == txn.Preparing && b.Vote >= txn.VoteDelegated:
		return ResolveOutcome
	case w.State == txn.Preparing:
		return Prepare
	case w.State == txn.Committing:
		return Commit
	case w.State == txn.RollingBack:
		return Rollback
	}
	return 0
}

// AwaitsDeadline reports whether there is nothing to do before the deadline, because the
// decision was delegated.
func (w *PendingTx) AwaitsDeadline() bool {
	for i := range w.Branches {
		if w.Action(&w.Branches[i]) != ResolveOutcome {
			return false
		}
	}
	return w.TimeLeft > 0 && len(w.Branches) > 0
}

// LeftToClient reports whether the client is expected to complete the branch
// itself. It is not when the timeout or an operator rolled back: then the client
// may be gone, and locks must be free at the deadline.
func (w *PendingTx) LeftToClient(b *Branch) bool {
	switch {
	case !b.ClientCompletes:
		return false
	case w.State == txn.RollingBack:
		return w.Cause == txn.CauseClient || w.Cause == txn.CauseVoteNo
	}
	return w.State == txn.Committing
}

// Branch returns one of the branches, if it still needs the action.
func (w *PendingTx) Branch(id txn.BranchID, v Action) (Branch, bool) {
	if v == Prepare && w.TimeLeft <= 0 || v == ResolveOutcome && w.TimeLeft > 0 {
		return Branch{}, false
	}
	for i := range w.Branches {
		if b := &w.Branches[i]; b.ID == id {
			return *b, w.Action(b) == v
		}
	}
	return Branch{}, false
}
