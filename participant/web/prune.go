package web

import (
	"context"
	"fmt"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// MinAge is the least age of the rows that [Prune] forgets.
const MinAge = time.Hour

// Prune forgets the ends of branches that ended longer ago than olderThan, and
// says how many. Prepared branches stay. It is called now and then, by whoever
// keeps the service; once a day is enough.
//
// What age is safe? A row of an ended branch is needed for two things.
//
// The answer to a repeated commit or rollback: the coordinator repeats until it
// has seen an answer. Once the row is gone the answer to commit is 404, and that to
// a rollback says that the branch was never prepared: both are shown as hazards of
// a branch that voted yes, although all is well. So olderThan has to be longer than the
// longest time in which the coordinator cannot reach the service, or is down,
// and has not given up: a week is a good value.
//
// The refusal of a prepare that comes after its rollback: a copy of a request that
// was held up on its way. That one is bounded by the transaction's timeout and,
// with signatures, by [Options].Tolerance; [MinAge] is above both for most. What
// comes later is prepared once more, and rolled back by the sweep if the service
// is registered with list.
//
// [txn.ErrInvalid]: olderThan is below [MinAge].
func Prune[S any](ctx context.Context, store Store[S], olderThan time.Duration) (int, error) {
	if olderThan < MinAge {
		return 0, fmt.Errorf("%w: prune the barrier: rows of the last %v are needed; want at least %v", txn.ErrInvalid, olderThan, MinAge)
	}
	return pruneBefore(ctx, store, time.Now().Add(-olderThan))
}

// pruneBefore is Prune without its least age.
func pruneBefore[S any](ctx context.Context, store Store[S], before time.Time) (int, error) {
	return store.Prune(ctx, statePrepared, before)
}
