package call

import (
	"context"
	"errors"
	"fmt"

	"github.com/txmgr/txmgr/internal/redact"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/recovery/plan"
	"github.com/txmgr/txmgr/txn"
)

// Do makes one call and evaluates the answer. The result of [plan.ReadOutcome] is zero while it is not known that
// the branch has committed.
func Do(ctx context.Context, p participant.Participant, b participant.Branch, v plan.Action) (rep plan.BranchResult, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%v: %w", v, err)
		}
	}()
	defer RecoverPanic(&err)
	var res participant.Result
	switch v {
	case plan.Prepare:
		return prepare(ctx, p, b)
	case plan.ReadOutcome:
		return readOutcome(ctx, p, b)
	case plan.ResolveOutcome:
		res, err = resolveOutcome(ctx, p, b)
	case plan.Commit:
		res, err = p.Commit(ctx, b)
	case plan.Rollback:
		res, err = p.Rollback(ctx, b)
	}
	if err != nil {
		return plan.BranchResult{}, err
	}
	return toResult(b.ID, v, res)
}

func prepare(ctx context.Context, p participant.Participant, b participant.Branch) (plan.BranchResult, error) {
	preparer, ok := p.(participant.Preparer)
	if !ok {
		return plan.BranchResult{}, &UnsupportedError{"this kind of participant is prepared by the application; " +
			"register it without coordinator_prepares"}
	}
	vote, detail, err := preparer.Prepare(ctx, b)
	if errors.Is(err, txn.ErrEndedByApplication) {
		return plan.BranchResult{Branch: b.ID, Vote: txn.VoteEndedByApplication, Detail: redact.Text(err.Error())}, nil
	}
	if err != nil {
		return plan.BranchResult{}, err
	}
	switch vote {
	case txn.VotePrepared, txn.VoteReadOnly, txn.VoteNo, txn.VoteEndedByApplication:
		return plan.BranchResult{Branch: b.ID, Vote: vote, Detail: redact.Text(detail)}, nil
	}
	return plan.BranchResult{}, fmt.Errorf("the participant answered vote %v", vote)
}

func resolveOutcome(ctx context.Context, p participant.Participant, b participant.Branch) (participant.Result, error) {
	resolver, ok := p.(participant.OutcomeResolver)
	if !ok {
		return participant.Result{}, &UnsupportedError{"the decision was delegated to a branch of a participant that " +
			"cannot tell afterwards how it ended; find out by hand, and report it with the branch's end"}
	}
	return resolver.ResolveOutcome(ctx, b)
}

// readOutcome returns the zero result unless it is proved that the branch has committed. Of a rollback nothing
// follows: the client, or the deadline, decides by it.
func readOutcome(ctx context.Context, p participant.Participant, b participant.Branch) (plan.BranchResult, error) {
	reader, ok := p.(participant.OutcomeReader)
	if !ok {
		return plan.BranchResult{}, nil
	}
	res, known, err := reader.ReadOutcome(ctx, b)
	if err != nil || !known || res.Outcome != participant.Committed {
		return plan.BranchResult{}, err
	}
	return toResult(b.ID, plan.ReadOutcome, res)
}

// toResult turns an outcome into a result: done when it is the decided outcome, or
// itself the decision; a heuristic outcome when it is not.
func toResult(id txn.BranchID, v plan.Action, res participant.Result) (plan.BranchResult, error) {
	rep := plan.BranchResult{Branch: id, Detail: redact.Text(res.Detail)}
	switch {
	case res.Outcome == participant.Unknown:
		rep.Heuristic = txn.HeuristicHazard
	case res.Outcome == participant.Committed && v != plan.Rollback:
		rep.State = txn.BranchCommitted
	case res.Outcome == participant.Committed:
		rep.Heuristic = txn.HeuristicCommit
	case res.Outcome == participant.RolledBack && v != plan.Commit:
		rep.State = txn.BranchRolledBack
	case res.Outcome == participant.RolledBack:
		rep.Heuristic = txn.HeuristicRollback
	default:
		return plan.BranchResult{}, fmt.Errorf("the participant answered ending %v", res.Outcome)
	}
	return rep, nil
}
