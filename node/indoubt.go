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
func (n adminCalls) inDoubt() indoubt.Calls {
	return indoubt.Calls{Node: inDoubtNode{n}, Log: n.recoveryLog(), Clock: n.clock, View: n.fsm.View}
}

// InDoubts implements [admin.InDoubts].
func (n adminCalls) InDoubts(ctx context.Context) ([]admin.InDoubt, error) {
	return n.inDoubt().List(ctx)
}

// Explain implements [admin.InDoubts].
func (n adminCalls) Explain(ctx context.Context, id txn.ID) (admin.Explanation, error) {
	return n.inDoubt().Explain(ctx, id)
}

// Retry implements [admin.InDoubts].
func (n adminCalls) Retry(ctx context.Context, id txn.ID) error { return n.inDoubt().Retry(ctx, id) }

// Resolve implements [admin.InDoubts].
func (n adminCalls) Resolve(ctx context.Context, id txn.ID, r admin.Resolution) (txn.Outcome, error) {
	return n.inDoubt().Resolve(ctx, id, r)
}

// Forget implements [admin.InDoubts].
func (n adminCalls) Forget(ctx context.Context, id txn.ID, by, reason string) (txn.Outcome, error) {
	return n.inDoubt().Forget(ctx, id, by, reason)
}

// inDoubtNode implements what package indoubt needs of the node.
type inDoubtNode struct{ adminCalls }

var _ indoubt.Node = inDoubtNode{}

// RequireReadable implements [indoubt.Node].
func (n inDoubtNode) RequireReadable(ctx context.Context) error { return n.requireReadable(ctx) }

// Stored implements [indoubt.Node].
func (n inDoubtNode) Stored(id txn.ID) (machine.Transaction, bool) { return n.stored(id) }

// Info implements [indoubt.Node].
func (n inDoubtNode) Info(t *machine.Transaction) txn.Info { return n.query().Info(t) }

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
