package indoubt

import (
	"fmt"
	"strings"
	"time"

	"github.com/txmgr/txmgr/internal/textutil"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// since is when a transaction was decided or, if it is not decided, when its deadline
// passed, by the wall clock; when it began if its end is asked for before that.
func since(t *machine.Transaction) time.Time {
	switch {
	case t.Decided != 0:
		return time.UnixMilli(t.Decided).UTC()
	case t.EndAsked() && t.Cause != txn.CauseTimeout,
		t.State.Decided() && t.Cause != txn.CauseTimeout: // decided by a release that recorded no time
		return time.UnixMilli(t.Began).UTC()
	}
	return time.UnixMilli(t.Began).Add(t.Timeout).UTC()
}

// listReason states in one line what failed, or what the transaction waits for.
func listReason(t *machine.Transaction, i *txn.Info) string {
	var parts []string
	for k := range t.Branches {
		if b := &t.Branches[k]; b.State == txn.BranchHeuristic {
			parts = append(parts, heuristicText(t, txn.BranchID(k+1)))
		}
	}
	for k := range i.Branches {
		b := &i.Branches[k]
		if !b.State.Finished() && !t.Follows(b.ID) {
			parts = append(parts, waitText(t, b))
		}
	}
	const shown = 3
	if more := len(parts) - shown; more > 0 {
		parts = append(parts[:shown], fmt.Sprintf("and %d more branches", more))
	}
	return strings.Join(parts, "; ")
}

// heuristicText states how a branch ended, or may have ended, otherwise than decided.
func heuristicText(t *machine.Transaction, id txn.BranchID) string {
	b := &t.Branches[id-1]
	decision := "roll back"
	if t.State.Commits() {
		decision = "commit"
	}
	text := fmt.Sprintf("%v at %s ended %v although the decision was to %s", id, b.Participant, b.Heuristic, decision)
	if b.Heuristic == txn.HeuristicHazard {
		text = fmt.Sprintf("the end of %v at %s is unknown; the decision was to %s", id, b.Participant, decision)
	}
	if b.Detail != "" {
		text += " (" + textutil.OneLine(b.Detail) + ")"
	}
	return text
}

// waitText states what an unfinished branch waits for.
func waitText(t *machine.Transaction, b *txn.BranchInfo) string {
	if b.Attempts == 0 && b.LastError == "" {
		switch {
		case t.Delegated() && b.Vote == txn.VoteEndedByApplication:
			return fmt.Sprintf("%s at %s was ended by statements of the application's own, and its participant has not said how", b.Name, b.Participant)
		case t.Delegated() && t.Cause != 0:
			return fmt.Sprintf("%s at %s decides, and its participant has not said yet how it ended", b.Name, b.Participant)
		case t.Delegated():
			return fmt.Sprintf("the decision was delegated to %s at %s, and its end was not reported", b.Name, b.Participant)
		default:
			return fmt.Sprintf("%s at %s has not come to its end yet", b.Name, b.Participant)
		}
	}
	text := b.Participant + ": " + textutil.OneLine(b.LastError) + " (attempt " + fmt.Sprint(b.Attempts)
	if next := time.Duration(b.NextTry).Round(time.Second); next > 0 {
		text += fmt.Sprintf(", next in %v", next)
	}
	return text + ")"
}
