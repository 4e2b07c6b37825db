package server

import (
	"context"

	"github.com/txmgr/txmgr/server/auth"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
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

// asyncCommitter is a [Coordinator] that needs no goroutine for a commit that waits for
// votes.
type asyncCommitter interface {
	// CommitAsync calls then exactly once with the results of Commit, either before it
	// returns or later on a goroutine that then must not block.
	CommitAsync(ctx context.Context, id txn.ID, c txn.CommitRequest, then func(txn.Outcome, error))
}
