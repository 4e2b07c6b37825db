package web

import (
	"context"

	"github.com/txmgr/txmgr/txn"
)

// Branch is what a callback is told of the branch that it works for.
type Branch struct {
	TX      txn.ID
	ID      txn.BranchID
	XID     string // of the branch, and of no other ever: a good name for what is done outside of the database
	Payload []byte // as the application gave it; the same in every phase
	Attempt int    // of the coordinator, from 1, as far as it remembers
}

// Callbacks are the work of a service. Each gets the local transaction s in which
// the branch's row is, and must work in it and not end it: after a COMMIT, a ROLLBACK, or
// in MariaDB an error of a deadlock after which it goes on, the branch is
// "ended-by-hand", and is not worked on again, whatever it returns. After a deadlock it
// returns at once: even a query, or ROLLBACK TO a savepoint, hides that nothing was done
// since. What it does elsewhere may be done more than once, so it has to bear that.
//
// A callback is called when its turn has come and not again after it has
// succeeded. Nil does nothing. An error undoes all that was done with s, unless the
// callback ended that; the coordinator tries again, and its operators read the text.
type Callbacks[S any] struct {
	// Prepare does the work so that it can still be undone, or promises it by
	// setting aside what it needs. Nil is a yes, a promise that Commit and Rollback
	// will both work. [ReadOnly] says that there is nothing to commit; [No] says
	// no. ctx ends with the transaction's time.
	Prepare func(ctx context.Context, s S, b Branch) error
	// Commit makes what was prepared final.
	Commit func(ctx context.Context, s S, b Branch) error
	// Rollback undoes what was prepared. It is not called for a branch that was
	// not.
	Rollback func(ctx context.Context, s S, b Branch) error
}

// ReadOnly is what Prepare returns when it changed nothing: there will be neither
// a commit nor a rollback. What it did all the same is kept.
var ReadOnly error = readOnly{}

type readOnly struct{}

// Error gives the vote.
func (readOnly) Error() string { return "read-only" }

// No is what Prepare returns to vote no: the transaction rolls back. The reason
// reaches the application; it is cut at 512 bytes.
func No(reason string) error { return &noVote{reason} }

type noVote struct{ reason string }

// Error gives the vote and its reason.
func (n *noVote) Error() string { return "no: " + n.reason }
