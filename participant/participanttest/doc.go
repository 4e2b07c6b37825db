// Package participanttest is the suite that every participant is held to: what
// the coordinator relies on, tried on the real resource.
//
// A participant's own tests call [Run] with a [Harness], which does what the
// application, the owner and the neighbours of the resource would do. The suite
// knows nothing about the resource but that it stores integers under keys.
//
// # Invariants that are tried
//
//  1. A prepared branch ends as it is told, once, however often and by however
//     many it is told, and over a restart of the resource.
//  2. What was never prepared is never said to be committed, and leaves nothing.
//  3. An end that somebody else brought about by hand is found out, or said to
//     be unknown; it is never reported as what was asked for.
//  4. What does not carry the cluster's prefix is neither listed nor touched.
//  5. A prepared branch keeps its locks, a finished one has none, and a rollback
//     takes them from a session that hangs.
//  6. A prepare that comes after the rollback is refused or can be found.
//  7. A context that has ended ends the call.
//
// And of those that can do more:
//
//  8. Asking changes nothing, and tells what is prepared, whose it is, and who
//     waits for it ([participant.Inspector], [participant.LockInspector]).
//  9. A branch that is settled has ended as was said, for ever, whatever its
//     session does then ([participant.OutcomeResolver], [txn.OnePhaseCommitter]).
//
// # Time
//
// Retries go by a ticker and are bounded by [Patience].
package participanttest
