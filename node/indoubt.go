package node

import (
	"context"

	"github.com/txmgr/txmgr/node/indoubt"
	"github.com/txmgr/txmgr/node/recoverylog"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/recovery"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// inDoubt returns the calls of operators about transactions in doubt.
func (n *Node) inDoubt() indoubt.Calls {
	return indoubt.Calls{Node: inDoubtNode{n}, Log: n.recoveryLog(), Clock: n.clock, View: n.fsm.View}
}

// InDoubts lists the transactions that an operator may have to look at, at most 1,000, oldest
// first: those with a heuristic outcome that is not forgotten; and those that are decided, or
// that are delegated and past their deadline, and that have not completed within 5 seconds or
// had a failed attempt.
func (n *Node) InDoubts(ctx context.Context) ([]admin.InDoubt, error) { return n.inDoubt().List(ctx) }

// Explain returns all that is known about a transaction, in any state, and asks its participants
// for the present state of its branches, each for at most 5 seconds.
func (n *Node) Explain(ctx context.Context, id txn.ID) (admin.Explanation, error) {
	return n.inDoubt().Explain(ctx, id)
}

// Retry retries the branches of a transaction now, regardless of their backoff; the zero id means
// all transactions in doubt. If the end of a branch is unknown, its participant is asked once
// more.
//
// [txn.ErrConflict]: the transaction is not decided yet, or no branch is left to retry.
func (n *Node) Retry(ctx context.Context, id txn.ID) error { return n.inDoubt().Retry(ctx, id) }

// Resolve records how an operator resolved a transaction in doubt. It first asks the participants
// of the branches concerned: an operator cannot resolve a branch that its participant holds
// prepared, or whose outcome it can prove.
//
// [txn.ErrInvalid]: no reason was given, or it is too long. [txn.ErrConflict]: the
// participants know the outcome, a branch is not in doubt, or the transaction is not
// decided and can only be rolled back.
func (n *Node) Resolve(ctx context.Context, id txn.ID, r admin.Resolution) (txn.Outcome, error) {
	return n.inDoubt().Resolve(ctx, id, r)
}

// Forget removes the heuristic outcome of a finished transaction, whose outcome is kept for the
// retention time from then on. Without a heuristic outcome there is nothing to forget.
//
// [txn.ErrInvalid]: no reason was given. [txn.ErrConflict]: it is not finished.
func (n *Node) Forget(ctx context.Context, id txn.ID, by, reason string) (txn.Outcome, error) {
	return n.inDoubt().Forget(ctx, id, by, reason)
}

// inDoubtNode implements what package indoubt needs of the node.
type inDoubtNode struct{ *Node }

var _ indoubt.Node = inDoubtNode{}

// RequireReadable implements [indoubt.Node].
func (n inDoubtNode) RequireReadable(ctx context.Context) error { return n.requireReadable(ctx) }

// Stored implements [indoubt.Node].
func (n inDoubtNode) Stored(id txn.ID) (machine.Transaction, bool) { return n.stored(id) }

// Info implements [indoubt.Node].
func (n inDoubtNode) Info(t *machine.Transaction) txn.Info { return n.info(t, true) }

// Branches implements [indoubt.Node].
func (n inDoubtNode) Branches(t *machine.Transaction, ids []txn.BranchID) []participant.Branch {
	branches := make([]participant.Branch, len(ids))
	n.fsm.View(func(m *machine.Machine) {
		for i, id := range ids {
			branches[i] = recoverylog.BranchOf(m, t, id)
		}
	})
	return branches
}

// Propose implements [indoubt.Node].
func (n inDoubtNode) Propose(ctx context.Context, op string, id txn.ID, command machine.Command) (txn.Outcome, error) {
	res, err := n.proposeTx(ctx, op, id, command)
	return outcomeOf(res), err
}

// Recovery implements [indoubt.Node].
func (n inDoubtNode) Recovery() *recovery.Recovery { return n.recovery() }
