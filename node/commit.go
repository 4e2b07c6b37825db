package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// Attach gives the transaction with this id to another service than the one that
// began it; see [txn.Attach].
func (n *Node) Attach(ctx context.Context, id txn.ID) (*txn.Tx, error) {
	return txn.Attach(ctx, n, id)
}

// Commit implements [txn.Manager]. While the coordinator collects the votes that
// are missing it waits, at most until the transaction's deadline.
func (n *Node) Commit(ctx context.Context, id txn.ID, c txn.Commitment) (txn.Outcome, error) {
	o, missing, err := n.askCommit(ctx, id, c)
	if !missing {
		return o, err
	}
	v := &verdict{n: n, id: id}
	if v.look() {
		return v.answer(ctx, nil)
	}
	return v.answer(ctx, n.hub.waits.wait(ctx, id, v.look))
}

// askCommit proposes the commit, and reports whether votes are missing: then nothing is
// decided yet.
func (n *Node) askCommit(ctx context.Context, id txn.ID, c txn.Commitment) (o txn.Outcome, missing bool, err error) {
	votes, res, err := n.endedByHand(ctx, "commit", id, c.Votes, "")
	if err != nil {
		return outcomeOf(res), false, err
	}
	res, err = n.call(ctx, "commit", id, machine.Commit{ID: id, Votes: votes, OwnPhaseTwo: c.OwnPhaseTwo})
	if res.Code == machine.Decided {
		err = n.withReason(err)
	}
	return outcomeOf(res), err == nil && res.State == txn.Preparing, err
}

// standing is where a transaction is whose commit was asked for.
func (n *Node) standing(id txn.ID) (o txn.Outcome, err error) {
	if err := n.serves(); err != nil {
		return o, undecided(id, o, err.Error())
	}
	var known bool
	n.fsm.View(func(m *machine.Machine) { o, known = m.Lookup(id) })
	if !known {
		return o, forgottenMeanwhile(id, o)
	}
	return o, nil
}

func forgottenMeanwhile(id txn.ID, o txn.Outcome) error {
	return undecided(id, o, "it was decided, and the outcome is forgotten already")
}

func undecided(id txn.ID, o txn.Outcome, why string) error {
	return &txn.Error{Op: "commit", ID: id, State: o.State, Err: txn.ErrInDoubt, Detail: why}
}

// withReason adds to the refusal of a commit why the transaction was rolled back,
// where somebody has said so.
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
func (n *Node) Vote(ctx context.Context, id txn.ID, b txn.Ballot) (txn.Outcome, error) {
	if len(b.Reason) > txn.MaxReason {
		return txn.Outcome{}, tooLong("vote", id, "reason", len(b.Reason))
	}
	votes, res, err := n.endedByHand(ctx, "vote", id, b.Votes, b.Reason)
	told := len(votes) < len(b.Votes)
	if err != nil || told && len(votes) == 0 {
		return outcomeOf(res), err
	}
	res, err = n.call(ctx, "vote", id, machine.Vote{ID: id, Votes: votes, OwnPhaseTwo: b.OwnPhaseTwo, Reason: b.Reason})
	switch {
	case told && res.EndedByHand:
		err = nil // as the caller has said; the other votes make no difference
	case err == nil && res.EndedByHand:
		err = n.withReason(res.Refusal("vote", id))
	case res.Code == machine.Decided:
		err = n.withReason(err)
	}
	return outcomeOf(res), err
}

// endedByHand has it recorded which branches were ended by statements of the
// application's own, and gives the votes that are left.
func (n *Node) endedByHand(ctx context.Context, op string, id txn.ID, votes []txn.BranchVote, reason string) (left []txn.BranchVote, res machine.Result, err error) {
	told, left := machine.SplitByHand(id, votes, reason)
	for _, c := range told {
		if res, err = n.call(ctx, op, id, c); err != nil {
			return left, res, err
		}
	}
	return left, res, nil
}

// Delegate implements [txn.Manager].
func (n *Node) Delegate(ctx context.Context, id txn.ID, b txn.BranchID) (txn.Outcome, error) {
	res, err := n.call(ctx, "delegate", id, machine.Delegate{ID: id, Branch: b})
	if res.Code == machine.Decided {
		err = n.withReason(err)
	}
	return outcomeOf(res), err
}

func tooLong(op string, id txn.ID, what string, bytes int) error {
	return &txn.Error{Op: op, ID: id, Err: txn.ErrInvalid, Detail: fmt.Sprintf("%s has %d bytes; at most %d", what, bytes, txn.MaxReason)}
}
