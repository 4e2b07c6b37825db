package indoubt

import (
	"context"
	"fmt"

	"github.com/txmgr/txmgr/internal/textutil"
	"github.com/txmgr/txmgr/node/audit"
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
// decided and can only be rolled back. When its branch decides and its participant was to be asked, what is recorded is
// the decision.
func (c Calls) Resolve(ctx context.Context, id txn.ID, r admin.Resolution) (txn.Outcome, error) {
	reason, err := audit.Reason(machine.OpResolve, id, r.Reason)
	if err != nil {
		return txn.Outcome{}, err
	}
	t, err := c.transaction(ctx, machine.OpResolve, id)
	if err != nil {
		return txn.Outcome{}, err
	}
	decides := c.awaitsEnd(&t)
	if t.State.Decided() || decides {
		for _, q := range c.probeBranches(ctx, &t, unresolvedBranches(&t, r.Branch)) {
			if why := rejectReason(&t, &q, r.Commit); why != "" {
				return currentOutcome(&t), &txn.Error{Op: machine.OpResolve, ID: id, State: t.State, Cause: t.Cause, Err: txn.ErrConflict, Detail: why}
			}
		}
	}
	command := machine.Resolve{ID: id, Branch: r.Branch, Outcome: txn.BranchRolledBack, By: audit.Operator(r.By), Reason: reason, Undecided: !t.State.Decided() && !decides, Decides: decides}
	if r.Commit {
		command.Outcome = txn.BranchCommitted
	}
	return c.Node.Propose(ctx, machine.OpResolve, id, command)
}

// Forget removes the heuristic outcome of a finished transaction, whose outcome is kept for the
// retention time from then on. Without a heuristic outcome there is nothing to forget.
//
// [txn.ErrInvalid]: no reason was given. [txn.ErrConflict]: it is not finished.
func (c Calls) Forget(ctx context.Context, id txn.ID, by, reason string) (txn.Outcome, error) {
	const op = "indoubt forget"
	reason, err := audit.Reason(op, id, reason)
	if err != nil {
		return txn.Outcome{}, err
	}
	return c.Node.Propose(ctx, op, id, machine.Forget{ID: id, By: audit.Operator(by), Reason: reason})
}

// awaitsEnd reports whether the branch decides by its end, and its participant is being asked for that.
func (c Calls) awaitsEnd(t *machine.Transaction) bool {
	return t.Delegated() && (t.Cause != 0 || c.Clock.Remaining(t.Expiry) <= 0)
}

func currentOutcome(t *machine.Transaction) txn.Outcome {
	return txn.Outcome{State: t.State, Cause: t.Cause, Heuristic: t.Heuristic, EndedByApplication: t.EndedByApplication()}
}

// unresolvedBranches returns the branches that an operator can resolve: the named one, or
// all that are unfinished or whose outcome is unknown; while one decides by its end, only that one.
func unresolvedBranches(t *machine.Transaction, named txn.BranchID) (ids []txn.BranchID) {
	for k := range t.Branches {
		id := txn.BranchID(k + 1)
		if (named == 0 || named == id) && !t.Follows(id) && branchInDoubt(&t.Branches[k]) {
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
	if q.Prepared && id == t.Decider() {
		return "" // it waits to be told, and its own end is what would tell
	}
	if q.Prepared {
		return where + " is prepared there: a retry lets the coordinator end it"
	}
	if q.Error == "" && q.Outcome == "" {
		return where + " has not ended there (" + textutil.OneLine(q.Detail) + "): when it has, a retry finds out how"
	}
	end, proved := provenOutcome(q)
	unfinished := !t.Branches[id-1].State.Finished()
	if proved && (unfinished || commit != (end == txn.BranchCommitted)) {
		return fmt.Sprintf("%s: there is proof that it ended %v (%s): a retry records that", where, end, textutil.OneLine(q.Detail))
	}
	return ""
}
