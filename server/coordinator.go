package server

import (
	"context"

	"github.com/txmgr/txmgr/server/auth"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/async"
)

// Coordinator is the service that a [Server] exposes: the calls of applications and of operators,
// and what is asked before each call. Errors are those of package txn. All methods must be safe for
// concurrent use.
type Coordinator interface {
	Admission
	Transactions
	Sessions
	// Admin returns the calls of operators.
	Admin() admin.Calls
}

// Admission is what is asked before each call.
type Admission interface {
	auth.Coordinator
	// Ready returns nil if calls can be answered here: the node leads, or knows the leader.
	Ready() error
}

// asyncCoordinator is a [Coordinator] some of whose calls need no goroutine while they wait, as
// those of a node.
type asyncCoordinator interface{ Async() async.Calls }

// blockingCalls make the calls of any Manager, with a goroutine each.
type blockingCalls struct{ txn.Manager }

// Begin implements [async.Calls].
func (c blockingCalls) Begin(ctx context.Context, o txn.Options, answer func(txn.BeginResult, error)) {
	answer(c.Manager.Begin(ctx, o))
}

// Commit implements [async.Calls].
func (c blockingCalls) Commit(ctx context.Context, id txn.ID, r txn.CommitRequest, answer func(txn.Outcome, error)) {
	answer(c.Manager.Commit(ctx, id, r))
}

// ReportCompletion implements [async.Calls].
func (c blockingCalls) ReportCompletion(ctx context.Context, id txn.ID, reports []txn.CompletionReport, answer func(error)) {
	answer(c.Manager.ReportCompletion(ctx, id, reports...))
}
