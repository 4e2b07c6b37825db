// Package participant is the contract between the coordinator and a participant of global
// transactions: a database, a service, a store.
//
// A driver implements [Participant], the coordinator's side, and a [Driver] that makes one from
// its registration; it passes the suite in participant/participanttest:
//
//	func Driver(ctx context.Context, p admin.Participant, cluster string) (participant.Participant, error) {
//		return openStore(ctx, p.Settings["path"], txn.ClusterPrefix(cluster))
//	}
//
// The application works and prepares on its own connection; the coordinator finishes branches,
// lists what is prepared, and fences connections that hang.
//
// # Invariants
//
//  1. Not found is never success. A participant that does not know a branch looks for proof;
//     without proof it answers [Unknown], and the coordinator reports a heuristic outcome.
//  2. Only branches with the cluster's prefix are ever changed.
//  3. Commit and Rollback may be repeated, by several workers at once, at any time, with the
//     same lasting effect as once.
//  4. An error means: it is not known whether anything happened; try again.
//
// # Concurrency
//
// A Participant is used by many goroutines at once and honours its context.
package participant
