package indoubt

import (
	"context"
	"fmt"
	"time"

	"github.com/txmgr/txmgr/recovery"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// Retry retries the branches of a transaction now, regardless of their backoff; the zero id means
// all transactions in doubt. If the end of a branch is unknown, its participant is asked once
// more.
//
// [txn.ErrConflict]: the transaction is not decided yet, or no branch is left to retry.
func (c Calls) Retry(ctx context.Context, id txn.ID) error {
	r := c.Node.Recovery()
	if r == nil {
		return &txn.Error{Op: "indoubt retry", ID: id, Err: txn.ErrUnavailable, Detail: "this node does not lead"}
	}
	if c.Log.RecoveryPaused() {
		return &txn.Error{Op: "indoubt retry", ID: id, Err: txn.ErrUnavailable, Detail: machine.RecoveryPausedDetail}
	}
	if id.IsZero() {
		for _, t := range c.find() {
			r.Retry(t.ID)
		}
		return nil
	}
	t, err := c.transaction(ctx, "indoubt retry", id)
	if err != nil {
		return err
	}
	switch {
	case t.State.Finished() && t.Heuristic != 0:
		return c.probeUnknown(ctx, &t)
	case t.State == txn.Active, t.Delegated() && !c.awaitsEnd(&t):
		return &txn.Error{Op: "indoubt retry", ID: id, State: t.State, Err: txn.ErrConflict, Detail: fmt.Sprintf("nothing is to be driven before it is decided, or its deadline has passed in %v", c.Clock.Remaining(t.Expiry).Round(time.Millisecond))}
	}
	r.Retry(id)
	return nil
}

// probeUnknown asks participants again for the proof that was missing when branches ended with a
// heuristic outcome.
func (c Calls) probeUnknown(ctx context.Context, t *machine.Transaction) error {
	var reports []recovery.BranchResult
	for _, q := range c.probeBranches(ctx, t, unresolvedBranches(t, 0)) {
		id, _ := txn.ParseBranchID(q.Branch)
		if end, ok := provenOutcome(&q); ok {
			reports = append(reports, reportOf(t, id, end, q.Detail))
		}
	}
	if len(reports) == 0 {
		return &txn.Error{Op: "indoubt retry", ID: t.ID, State: t.State, Err: txn.ErrConflict, Detail: "all branches have ended, and no participant knows more than before: an operator has to record how they ended, or to forget the transaction"}
	}
	if err := c.Log.Report(ctx, t.ID, reports); err != nil {
		return txn.Wrap("indoubt retry", t.ID, err)
	}
	return nil
}

// reportOf is the result that recovery would have reported for the end of a branch.
func reportOf(t *machine.Transaction, id txn.BranchID, end txn.BranchState, detail string) recovery.BranchResult {
	r := recovery.BranchResult{Branch: id, Detail: detail}
	switch {
	case t.State.Commits() == (end == txn.BranchCommitted):
		r.State = end
	case end == txn.BranchCommitted:
		r.Heuristic = txn.HeuristicCommit
	default:
		r.Heuristic = txn.HeuristicRollback
	}
	return r
}
