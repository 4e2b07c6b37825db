package indoubt

import (
	"context"

	"github.com/txmgr/txmgr/node/ticks"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/recovery"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// Calls are the calls of operators. All fields are required.
type Calls struct {
	Node  Node
	Log   recovery.Log // the participants, and where results of branches are recorded
	Clock *ticks.Clock
	View  func(func(*machine.Machine)) // reads the state machine
}

// Node is what the calls need of the node.
type Node interface {
	// RequireReadable returns why this node cannot answer from its state now.
	RequireReadable(ctx context.Context) error
	// Stored returns a transaction as this node has applied it.
	Stored(id txn.ID) (t machine.Transaction, ok bool)
	// Info returns the public view of a transaction, with the state of recovery.
	Info(t *machine.Transaction) txn.Info
	// Branches returns branches of a transaction in the form that their participants need.
	Branches(t *machine.Transaction, ids []txn.BranchID) []participant.Branch
	// Propose proposes a command on one transaction and converts a refusal to an error.
	Propose(ctx context.Context, op string, id txn.ID, command machine.Command) (txn.Outcome, error)
	// Audit lists what operators did.
	Audit(ctx context.Context, f admin.AuditFilter) ([]admin.AuditRecord, error)
	// Recovery is nil unless this node leads.
	Recovery() *recovery.Recovery
}

// transaction returns a transaction for an operator's call.
func (c Calls) transaction(ctx context.Context, op string, id txn.ID) (t machine.Transaction, err error) {
	if err := c.Node.RequireReadable(ctx); err != nil {
		return t, txn.Wrap(op, id, err)
	}
	t, ok := c.Node.Stored(id)
	if !ok {
		return t, machine.Result{Code: machine.NotFound}.ToError(op, id)
	}
	return t, nil
}
