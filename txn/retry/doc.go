// Package retry does the work of a global transaction again when that is safe and may help. Call
// [Run] where [txn.Run] would be called:
//
//	err := retry.Run(ctx, m, txn.Options{Name: "order"}, retry.Policy{}, func(ctx context.Context, tx *txn.Tx) error {
//		...
//	})
//
// Each attempt is a transaction of its own, with an id of its own. What is repeated is what
// [Retryable] reports: surely nothing was applied ([txn.ErrRolledBack], or the begin itself
// failed), and the reason is one that passes: a deadlock, a serialization failure, a coordinator
// that was not available. A constraint that was violated, a timeout, and an answer that was lost
// are not.
//
// The function runs once for each attempt. What it does beside its transaction, such as sending a
// message, is not rolled back with it, and is repeated, too.
//
// The package is apart from txn because it knows the errors of the database drivers.
package retry
