package indoubt

import (
	"fmt"
	"strings"
	"time"

	"github.com/txmgr/txmgr/internal/textutil"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// summary describes in a few lines what the log knows.
func (c Calls) summary(t *machine.Transaction, i *txn.Info, audit []admin.AuditRecord) []string {
	began := fmt.Sprintf("begun %s", formatTime(i.Began))
	if t.Name != "" {
		began += fmt.Sprintf(" as %q", t.Name)
	}
	lines := []string{fmt.Sprintf("%s, with %v to be decided: until tick %d", began, t.Timeout, t.Expiry)}
	if t.State.Decided() {
		lines = append(lines, decisionText(t, i, audit))
	} else {
		lines = append(lines, c.undecidedText(t, i))
	}
	return append(lines, branchesText(t)...)
}

func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000 MST") }

// undecidedText states what an undecided transaction waits for.
func (c Calls) undecidedText(t *machine.Transaction, i *txn.Info) string {
	left := fmt.Sprintf("%v are left", i.ExpiresIn)
	if i.ExpiresIn == 0 {
		left = "its deadline has passed"
	}
	decider := branchName(t, decidingBranch(t))
	switch {
	case t.Delegated() && t.EndedByApplication():
		return fmt.Sprintf("not decided: the decision was delegated to %s, which was ended by statements of the application's own; its participant is asked how", decider)
	case t.Appointed() && len(t.Branches) > 1:
		return fmt.Sprintf("not decided: %s decides by its own end, and may have committed; its participant is asked for that when another branch stays prepared, and when the time is over: %s", decider, left)
	case t.Appointed():
		return fmt.Sprintf("not decided: its only branch decides, %s, by its own end, and may have committed; its participant is asked for that when the time is over: %s", decider, left)
	case t.Delegated() && t.Cause != 0:
		return fmt.Sprintf("not decided: %s, and its participant is being asked how it ended: %s", decidesText(t), causeText(t, nil))
	case t.Delegated():
		return fmt.Sprintf("not decided: the decision was delegated to %s, which decides by its own end; its participant is asked for that when the time is over: %s", decider, left)
	case t.State == txn.Preparing:
		var missing []string
		for k, b := range t.Branches {
			if b.Vote == 0 {
				missing = append(missing, branchName(t, txn.BranchID(k+1)))
			}
		}
		return fmt.Sprintf("not decided: commit was asked for, and the coordinator collects the votes of %s: %s", strings.Join(missing, ", "), left)
	}
	return "not decided: no commit or rollback was requested yet:  " + left
}

// decisionText states the decision, its time, its log entry and its cause.
func decisionText(t *machine.Transaction, i *txn.Info, audit []admin.AuditRecord) string {
	what := "decided to roll back"
	if t.State.Commits() {
		what = "decided to commit"
	}
	when := " at a time that the log has not kept"
	if !i.Decided.IsZero() {
		when = fmt.Sprintf(" %s, at tick %d, by entry %d of the log", formatTime(i.Decided), i.DecidedTick, i.DecidedIndex)
	}
	return what + when + ": " + causeText(t, audit)
}

func causeText(t *machine.Transaction, audit []admin.AuditRecord) string {
	decider := decidingBranch(t)
	unproved := decider != 0 && t.Branches[decider-1].State == txn.BranchHeuristic
	switch {
	case unproved && t.State.Commits():
		return deciderText(t) + " was said to have committed"
	case decider != 0 && t.State.Commits():
		return deciderText(t) + " had committed"
	case t.State.Commits():
		return "every branch had voted for it"
	case t.Cause == txn.CauseVoteNo && t.EndedByApplication():
		return "a branch was ended by statements of the application's own" + reasonText(t.Reason)
	case unproved && t.Cause == txn.CauseVoteNo:
		return "nothing proves that " + deciderText(t) + " had committed" + reasonText(t.Reason)
	case decider != 0 && t.Cause == txn.CauseVoteNo:
		return deciderText(t) + " had not committed" + reasonText(t.Reason)
	}
	switch t.Cause {
	case txn.CauseClient:
		return "the application asked for it" + reasonText(t.Reason)
	case txn.CauseTimeout:
		return fmt.Sprintf("it was not decided within %v", t.Timeout)
	case txn.CauseVoteNo:
		return "a branch voted no" + reasonText(t.Reason)
	case txn.CauseSessionExpired:
		return "the client session expired" + reasonText(t.Reason)
	case txn.CauseOperator:
		for _, a := range audit {
			if a.Action != "forget" && a.By != "" {
				return a.By + " asked for it" + reasonText(t.Reason)
			}
		}
		return "an operator requested it" + reasonText(t.Reason)
	}
	return t.Cause.String()
}

func reasonText(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + textutil.OneLine(reason)
}

// byHandText warns of effects that no branch's end shows: those after application SQL ended a
// branch.
func byHandText(t *machine.Transaction) string {
	var which []string
	for k, b := range t.Branches {
		if b.Vote == txn.VoteEndedByApplication {
			which = append(which, branchName(t, txn.BranchID(k+1)))
		}
	}
	return "ended by statements of the application's own: " + strings.Join(which, ", ") + "; what its session did after that may be committed: look at the data"
}

// branchesText describes the progress of the branches.
func branchesText(t *machine.Transaction) (lines []string) {
	var open []string
	for k := range t.Branches {
		b, id := &t.Branches[k], txn.BranchID(k+1)
		if b.State == txn.BranchHeuristic {
			lines = append(lines, heuristicText(t, id))
		}
		if !b.State.Finished() {
			open = append(open, branchName(t, id))
		}
	}
	switch {
	case !t.State.Decided():
	case len(open) > 0:
		lines = append(lines, fmt.Sprintf("%d of %d branches have not come to their end: %s", len(open), len(t.Branches), strings.Join(open, ", ")))
	case len(lines) == 0:
		lines = append(lines, "all branches have ended as decided")
	}
	if t.EndedByApplication() {
		lines = append(lines, byHandText(t))
	}
	return lines
}
