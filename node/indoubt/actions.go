package indoubt

import (
	"fmt"
	"slices"
	"strings"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// actions lists the actions that an operator could take now, allowed or not.
func (c Calls) actions(t *machine.Transaction, asked []admin.BranchProbe) []admin.Action {
	return []admin.Action{
		c.retryAction(t),
		c.resolveAction(t, asked, true),
		c.resolveAction(t, asked, false),
		forgetAction(t),
	}
}

func (c Calls) retryAction(t *machine.Transaction) admin.Action {
	a := admin.Action{Name: admin.ActionRetry}
	switch {
	case t.State == txn.Active:
		a.Why = "it is not decided: nothing is to be driven yet"
	case t.Delegated() && !c.awaitsEnd(t):
		a.Why = "the application may still be committing the branch: the participant is asked when the time is over"
	case t.State.Finished() && len(unresolvedBranches(t, 0)) > 0 && t.Heuristic != 0:
		a.Allowed, a.Why = true, "asks the participants once more for proof of how the branches ended"
	case t.State.Finished():
		a.Why = "all branches have ended"
	default:
		a.Allowed, a.Why = true, "the coordinator goes on trying by itself; this tries at once, whatever the backoff"
	}
	return a
}

// resolveAction returns the action that resolves the branches in doubt as ended so, and whether
// it is allowed.
func (c Calls) resolveAction(t *machine.Transaction, asked []admin.BranchProbe, commit bool) admin.Action {
	a := admin.Action{Name: admin.ActionRollback}
	if commit {
		a.Name = admin.ActionCommit
	}
	unresolved := unresolvedBranches(t, 0)
	switch {
	case t.Delegated() && !c.awaitsEnd(t):
		a.Why = "the decision was delegated to " + t.Branches[t.Decider()-1].Participant + ": only that participant can decide"
	case t.Appointed() && commit:
		a.Why = decidesText(t) + ": whether it has committed is asked of its participant alone"
	case t.Appointed():
		a.Allowed, a.Why = true, decidesText(t)+": this asks its participant now how it ended, and rolls back if it has not committed"
	case !t.State.Decided() && !t.Delegated() && commit:
		a.Why = "it is not decided, and only the votes of all branches can commit"
	case !t.State.Decided() && !t.Delegated():
		a.Allowed, a.Why = true, "it is not decided: this decides to roll back, everywhere"
	case len(unresolved) == 0 || t.State.Finished() && t.Heuristic == 0:
		a.Why = "no branch is in doubt"
	default:
		for i := range asked {
			id, _ := txn.ParseBranchID(asked[i].Branch)
			if !slices.Contains(unresolved, id) {
				continue
			}
			if a.Why = rejectReason(t, &asked[i], commit); a.Why != "" {
				return a
			}
		}
		a.Allowed, a.Why = true, resolveText(t, unresolved, commit)
	}
	return a
}

func resolveText(t *machine.Transaction, unresolved []txn.BranchID, commit bool) string {
	var names []string
	for _, id := range unresolved {
		names = append(names, branchName(t, id))
	}
	end, wrong := "rolled back", t.State.Commits()
	if commit {
		end, wrong = "committed", !wrong
	}
	text := fmt.Sprintf("if you know that what cannot be proved (%s) %s there: the coordinator believes it, and asks no more", strings.Join(names, ", "), end)
	if t.Delegated() {
		return text + "; that is then the decision, and a heuristic outcome too, since there is no proof"
	}
	if wrong {
		text += "; it is a heuristic outcome then, since the decision was otherwise"
	}
	return text
}

func forgetAction(t *machine.Transaction) admin.Action {
	a := admin.Action{Name: admin.ActionForget}
	switch {
	case t.Heuristic == 0:
		a.Why = "there is no heuristic outcome"
	case !t.State.Finished():
		a.Why = "its branches have to come to their end first"
	default:
		a.Allowed, a.Why = true, "when the damage is repaired: the heuristic outcome is shown no more, and the outcome is kept for the retention time"
	}
	return a
}
