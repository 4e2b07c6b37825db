package web

import (
	"context"

	"github.com/txmgr/txmgr/txn"
)

// Branch describes to a callback the branch that it works for.
type Branch struct {
	TX      txn.ID
	ID      txn.BranchID
	XID     string // unique for ever: suitable as the idempotency key of effects outside of the database
	Payload []byte // from the application; the same in every phase
	Attempt int    // the coordinator's attempts, from 1, as far as it knows
}

// Callbacks are the work of a service. Each callback gets the local transaction s that has the
// branch's row locked, and must work in it and not end it: after a COMMIT, a ROLLBACK, or in
// MariaDB a deadlock error after which it continues, the branch is "ended-by-application", and no
// callback is called for it again, whatever the callback returns. After a deadlock a callback
// must return at once: even a query, or ROLLBACK TO a savepoint, hides that nothing was done
// since. Effects outside of s may happen more than once, so they have to be idempotent.
//
// A callback is called only in its phase, and not again after it has succeeded. A nil callback
// does nothing. An error rolls back all work in s, unless the callback ended the transaction; the
// coordinator tries again, and shows the text to its operators.
type Callbacks[S any] struct {
	// Prepare does the work so that it can still be rolled back, or reserves what it needs. A nil
	// error votes yes, a promise that Commit and Rollback will both work. [ReadOnly] says that
	// there is nothing to commit; [No] votes no. ctx ends at the transaction's deadline.
	Prepare func(ctx context.Context, s S, b Branch) error
	// Commit makes what was prepared final.
	Commit func(ctx context.Context, s S, b Branch) error
	// Rollback undoes what was prepared. It is not called for a branch that was not prepared.
	Rollback func(ctx context.Context, s S, b Branch) error
}

// ReadOnly is what Prepare returns if it changed nothing: neither commit nor rollback will follow.
// Changes that it made nevertheless are committed.
var ReadOnly error = readOnly{}

type readOnly struct{}

// Error returns the vote.
func (readOnly) Error() string { return "read-only" }

// No returns the error with which Prepare votes no: the transaction is rolled back. The reason is
// reported to the application, truncated to 512 bytes.
func No(reason string) error { return &noVote{reason} }

type noVote struct{ reason string }

// Error returns the vote and its reason.
func (n *noVote) Error() string { return "no: " + n.reason }
