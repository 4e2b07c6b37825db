package node

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/txmgr/txmgr/internal/textutil"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// Resolve records how an operator resolved a transaction in doubt. It first asks the participants
// of the branches concerned: an operator cannot resolve a branch that its participant holds
// prepared, or whose outcome it can prove.
//
// [txn.ErrInvalid]: no reason was given, or it is too long. [txn.ErrConflict]: the
// participants know the outcome, a branch is not in doubt, or the transaction is not
// decided and can only be rolled back.
func (n *Node) Resolve(ctx context.Context, id txn.ID, r admin.Resolution) (txn.Outcome, error) {
	reason, err := requireReason(machine.OpResolve, id, r.Reason)
	if err != nil {
		return txn.Outcome{}, err
	}
	t, err := n.transaction(ctx, machine.OpResolve, id)
	if err != nil {
		return txn.Outcome{}, err
	}
	if t.State.Decided() {
		for _, q := range n.probeBranches(ctx, &t, unresolvedBranches(&t, r.Branch)) {
			if why := rejectReason(&t, &q, r.Commit); why != "" {
				return currentOutcome(&t), &txn.Error{Op: machine.OpResolve, ID: id, State: t.State, Cause: t.Cause, Err: txn.ErrConflict, Detail: why}
			}
		}
	}
	c := machine.Resolve{ID: id, Branch: r.Branch, Outcome: txn.BranchRolledBack, By: operatorName(r.By), Reason: reason, Undecided: !t.State.Decided()}
	if r.Commit {
		c.Outcome = txn.BranchCommitted
	}
	res, err := n.proposeTx(ctx, machine.OpResolve, id, c)
	return outcomeOf(res), err
}

// requireReason checks the operator's reason.
func requireReason(op string, id txn.ID, reason string) (string, error) {
	reason = strings.TrimSpace(reason)
	switch {
	case reason == "":
		return "", &txn.Error{Op: op, ID: id, Err: txn.ErrInvalid, Detail: "no reason given: say why, the audit keeps it"}
	case len(reason) > txn.MaxReason:
		return "", tooLongError(op, id, "reason", len(reason))
	}
	return reason, nil
}

// operatorName returns the name of the operator in the form that the log accepts.
func operatorName(by string) string { return textutil.Limit(oneLine(by), txn.MaxName) }

func currentOutcome(t *machine.Transaction) txn.Outcome {
	return txn.Outcome{State: t.State, Cause: t.Cause, Heuristic: t.Heuristic, EndedByApplication: t.EndedByApplication()}
}

// unresolvedBranches returns the branches that an operator can resolve: the named one, or
// all that are unfinished or whose outcome is unknown.
func unresolvedBranches(t *machine.Transaction, named txn.BranchID) (ids []txn.BranchID) {
	for k := range t.Branches {
		id := txn.BranchID(k + 1)
		if (named == 0 || named == id) && branchInDoubt(&t.Branches[k]) {
			ids = append(ids, id)
		}
	}
	return ids
}

func branchInDoubt(b *machine.TransactionBranch) bool {
	return !b.State.Finished() || b.State == txn.BranchHeuristic && b.Heuristic == txn.HeuristicHazard
}

// rejectReason returns why an operator cannot resolve a branch so; empty when that is possible.
func rejectReason(t *machine.Transaction, q *admin.BranchProbe, commit bool) string {
	id, _ := txn.ParseBranchID(q.Branch)
	where := fmt.Sprintf("%s at %s", q.Branch, q.Participant)
	if q.Prepared {
		return where + " is prepared there: the coordinator can end it: txmgr indoubt retry " + t.ID.String()
	}
	if q.Error == "" && q.Outcome == "" {
		return where + " has not ended there (" + oneLine(q.Detail) + "): when it has, txmgr indoubt retry " + t.ID.String() + " finds out how"
	}
	end, proved := provenOutcome(q)
	unfinished := !t.Branches[id-1].State.Finished()
	if proved && (unfinished || commit != (end == txn.BranchCommitted)) {
		return fmt.Sprintf("%s: there is proof that it ended %v (%s): txmgr indoubt retry %v records that", where, end, oneLine(q.Detail), t.ID)
	}
	return ""
}

// Forget removes the heuristic outcome of a finished transaction, whose outcome is kept for the
// retention time from then on. Without a heuristic outcome there is nothing to forget.
//
// [txn.ErrInvalid]: no reason was given. [txn.ErrConflict]: it is not finished.
func (n *Node) Forget(ctx context.Context, id txn.ID, by, reason string) (txn.Outcome, error) {
	const op = "indoubt forget"
	reason, err := requireReason(op, id, reason)
	if err != nil {
		return txn.Outcome{}, err
	}
	res, err := n.proposeTx(ctx, op, id, machine.Forget{ID: id, By: operatorName(by), Reason: reason})
	return outcomeOf(res), err
}

// The actions of a [admin.Action].
const (
	actionRetry    = "retry"
	actionCommit   = "commit"
	actionRollback = "rollback"
	actionForget   = "forget"
)

// actions lists the actions that an operator could take now, allowed or not.
func (n *Node) actions(t *machine.Transaction, asked []admin.BranchProbe) []admin.Action {
	id := t.ID.String()
	all := []admin.Action{
		n.retryAction(t),
		resolveAction(t, asked, true),
		resolveAction(t, asked, false),
		forgetAction(t),
	}
	commands := map[string]string{
		actionRetry:    "txmgr indoubt retry " + id,
		actionCommit:   "txmgr indoubt resolve " + id + " --commit --reason '...'",
		actionRollback: "txmgr indoubt resolve " + id + " --rollback --reason '...'",
		actionForget:   "txmgr indoubt forget " + id + " --reason '...'",
	}
	for i := range all {
		if all[i].Allowed {
			all[i].Command = commands[all[i].Name]
		}
	}
	return all
}

func (n *Node) retryAction(t *machine.Transaction) admin.Action {
	c := admin.Action{Name: actionRetry}
	switch {
	case t.State == txn.Active:
		c.Why = "it is not decided: nothing is to be driven yet"
	case t.Delegated() && n.clock.Remaining(t.Expiry) > 0:
		c.Why = "the application may still be committing the branch: the participant is asked when the time is over"
	case t.State.Finished() && len(unresolvedBranches(t, 0)) > 0 && t.Heuristic != 0:
		c.Allowed, c.Why = true, "asks the participants once more for proof of how the branches ended"
	case t.State.Finished():
		c.Why = "all branches have ended"
	default:
		c.Allowed, c.Why = true, "the coordinator goes on trying by itself; this tries at once, whatever the backoff"
	}
	return c
}

// resolveAction returns the action that resolves the branches in doubt as ended so, and whether
// it is allowed.
func resolveAction(t *machine.Transaction, asked []admin.BranchProbe, commit bool) admin.Action {
	c := admin.Action{Name: actionRollback}
	if commit {
		c.Name = actionCommit
	}
	unresolved := unresolvedBranches(t, 0)
	switch {
	case t.Delegated():
		c.Why = "the decision was delegated to " + t.Branches[0].Participant + ": only that participant can decide"
	case !t.State.Decided() && commit:
		c.Why = "it is not decided, and only the votes of all branches can commit"
	case !t.State.Decided():
		c.Allowed, c.Why = true, "it is not decided: this decides to roll back, everywhere"
	case len(unresolved) == 0 || t.State.Finished() && t.Heuristic == 0:
		c.Why = "no branch is in doubt"
	default:
		for i := range asked {
			id, _ := txn.ParseBranchID(asked[i].Branch)
			if !slices.Contains(unresolved, id) {
				continue
			}
			if c.Why = rejectReason(t, &asked[i], commit); c.Why != "" {
				return c
			}
		}
		c.Allowed, c.Why = true, resolveText(t, unresolved, commit)
	}
	return c
}

func resolveText(t *machine.Transaction, unresolved []txn.BranchID, commit bool) string {
	var names []string
	for _, id := range unresolved {
		names = append(names, fmt.Sprintf("%v at %s", id, t.Branches[id-1].Participant))
	}
	end, wrong := "rolled back", t.State.Commits()
	if commit {
		end, wrong = "committed", !wrong
	}
	text := fmt.Sprintf("if you know that what cannot be proved (%s) %s there: the coordinator believes it, and asks no more", strings.Join(names, ", "), end)
	if wrong {
		text += "; it is a heuristic outcome then, since the decision was otherwise"
	}
	return text
}

func forgetAction(t *machine.Transaction) admin.Action {
	c := admin.Action{Name: actionForget}
	switch {
	case t.Heuristic == 0:
		c.Why = "there is no heuristic outcome"
	case !t.State.Finished():
		c.Why = "its branches have to come to their end first"
	default:
		c.Allowed, c.Why = true, "when the damage is repaired: the heuristic outcome is shown no more, and the outcome is kept for the retention time"
	}
	return c
}
