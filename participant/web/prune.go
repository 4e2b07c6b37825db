package web

import (
	"context"
	"fmt"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// MinAge is the least age of the rows that [Prune] deletes.
const MinAge = time.Hour

// Prune deletes the rows of branches that ended longer ago than olderThan, and returns their
// number. Rows of prepared branches stay. The service calls it regularly; once a day is enough.
//
// The safe age depends on the two uses of a row of an ended branch.
//
// The first is the response to a repeated commit or rollback: the coordinator repeats the call
// until it has received a response. Once the row is deleted, the response to commit is 404, and
// the one to rollback says that the branch was never prepared: for a branch that voted yes, both
// are reported as heuristic hazards, although the outcome is right. So olderThan has to be longer
// than the longest time in which the coordinator is down, or cannot reach the service and keeps
// trying: a week is a good value.
//
// The second is the refusal of a prepare that arrives after its rollback: a delayed copy of a
// request. Its delay is bounded by the transaction's timeout and, with signatures, by
// [Options].Tolerance; [MinAge] usually exceeds both. A copy that arrives later is prepared again,
// and rolled back by the sweep if the service is registered with list.
//
// The error is [txn.ErrInvalid] if olderThan is below [MinAge].
func Prune[S any](ctx context.Context, store Store[S], olderThan time.Duration) (int, error) {
	if olderThan < MinAge {
		return 0, fmt.Errorf("%w: prune the barrier: rows of the last %v are needed; want at least %v", txn.ErrInvalid, olderThan, MinAge)
	}
	return pruneBefore(ctx, store, time.Now().Add(-olderThan))
}

// pruneBefore is Prune without the check of the age.
func pruneBefore[S any](ctx context.Context, store Store[S], before time.Time) (int, error) {
	return store.Prune(ctx, statePrepared, before)
}
