package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/txmgr/txmgr/node/commitwait"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// Commit implements [txn.Manager]. While the coordinator collects missing votes the call waits,
// at most until the transaction's deadline.
func (n *Node) Commit(ctx context.Context, id txn.ID, c txn.CommitRequest) (txn.Outcome, error) {
	o, missing, err := n.proposeCommit(ctx, id, c)
	if !missing {
		return o, err
	}
	return commitwait.Wait(ctx, commitNode{n}, n.notifier, id)
}

// proposeCommit proposes the commit, and reports whether votes are missing: in that case
// nothing is decided yet.
func (n *Node) proposeCommit(ctx context.Context, id txn.ID, c txn.CommitRequest) (o txn.Outcome, missing bool, err error) {
	votes, res, err := n.recordEndedByApplication(ctx, "commit", id, c.Votes, "")
	if err != nil {
		return outcomeOf(res), false, err
	}
	return n.commitResult(n.proposeTx(ctx, "commit", id, machine.Commit{ID: id, Votes: votes, ClientCompletes: c.ClientCompletes}))
}

// commitResult is the answer to a commit whose command has this result, and whether votes are
// missing.
func (n *Node) commitResult(res machine.Result, err error) (txn.Outcome, bool, error) {
	if res.Code == machine.Decided {
		err = n.withReason(err)
	}
	return outcomeOf(res), err == nil && res.State == txn.Preparing, err
}

// commitNode is a node as package commitwait needs it.
type commitNode struct{ *Node }

// Outcome implements [commitwait.Node].
func (n commitNode) Outcome(id txn.ID) (o txn.Outcome, known bool, err error) {
	if err := n.requireLeader(); err != nil {
		return o, false, err
	}
	n.fsm.View(func(m *machine.Machine) { o, known = m.Lookup(id) })
	return o, known, nil
}

// RollbackError implements [commitwait.Node].
func (n commitNode) RollbackError(id txn.ID) error {
	t, ok := n.stored(id)
	if !ok {
		return nil
	}
	return n.withReason(t.RollbackError("commit"))
}

// withReason adds the reason of the rollback, if one was recorded, to the error of a call that
// came after the decision.
func (n *Node) withReason(err error) error {
	var e *txn.Error
	if !errors.As(err, &e) || e.Cause == 0 || e.Cause == txn.CauseTimeout {
		return err
	}
	n.fsm.View(func(m *machine.Machine) {
		if t, ok := m.Get(e.ID); ok && t.Reason != "" && !t.State.Commits() {
			e.Detail = t.Reason + "; " + e.Detail
		}
	})
	return err
}

// Vote implements [txn.Manager].
func (n *Node) Vote(ctx context.Context, id txn.ID, b txn.Votes) (txn.Outcome, error) {
	if len(b.Reason) > txn.MaxReason {
		return txn.Outcome{}, tooLongError("vote", id, "reason", len(b.Reason))
	}
	votes, res, err := n.recordEndedByApplication(ctx, "vote", id, b.Votes, b.Reason)
	told := len(votes) < len(b.Votes)
	if err != nil || told && len(votes) == 0 {
		return outcomeOf(res), err
	}
	res, err = n.proposeTx(ctx, "vote", id, machine.Vote{ID: id, Votes: votes, ClientCompletes: b.ClientCompletes, Reason: b.Reason})
	switch {
	case told && res.EndedByApplication:
		err = nil // the outcome is what the caller reported; the other votes make no difference
	case err == nil && res.EndedByApplication:
		err = n.withReason(res.ToError("vote", id))
	case res.Code == machine.Decided:
		err = n.withReason(err)
	}
	return outcomeOf(res), err
}

// recordEndedByApplication records which branches were ended by application SQL, and returns the votes of
// the other branches.
func (n *Node) recordEndedByApplication(ctx context.Context, op string, id txn.ID, votes []txn.BranchVote, reason string) (left []txn.BranchVote, res machine.Result, err error) {
	told, left := machine.SplitEndedByApplication(id, votes, reason)
	for _, c := range told {
		if res, err = n.proposeTx(ctx, op, id, c); err != nil {
			return left, res, err
		}
	}
	return left, res, nil
}

// Delegate implements [txn.Manager].
func (n *Node) Delegate(ctx context.Context, id txn.ID, b txn.BranchID) (txn.Outcome, error) {
	res, err := n.proposeTx(ctx, "delegate", id, machine.Delegate{ID: id, Branch: b})
	if res.Code == machine.Decided {
		err = n.withReason(err)
	}
	return outcomeOf(res), err
}

func tooLongError(op string, id txn.ID, what string, bytes int) error {
	return &txn.Error{Op: op, ID: id, Err: txn.ErrInvalid, Detail: fmt.Sprintf("%s has %d bytes; at most %d", what, bytes, txn.MaxReason)}
}
