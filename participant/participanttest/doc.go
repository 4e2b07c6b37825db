// Package participanttest is the suite that every participant has to pass: it tries what the
// coordinator relies on, on the real participant.
//
// A participant's own tests call [Run] with a [Harness], which does what the application, an
// operator and other users of the participant would do:
//
//	func TestConformance(t *testing.T) {
//		participanttest.Run(t, participanttest.Harness{
//			Cluster: "test",
//			Open:    open, // the coordinator's side
//			Work:    work, // the application's side
//			// Write, Read, FinishManually and Restart
//		})
//	}
//
// The suite knows nothing about the participant but that it stores integers under keys.
// [RunApplication] tries the application's side of a database, and [RowWhenOpened] that its marker row
// is written in time.
//
// # Invariants that are tried
//
//  1. A prepared branch ends as the coordinator says, once, however often and by however many
//     callers it is told, and over a restart of the participant.
//  2. A branch that was never prepared is never reported as committed, and leaves nothing.
//  3. An end that an operator brought about manually is found out, or reported as unknown; it
//     is never reported as what was asked for.
//  4. A branch without the cluster's prefix is neither listed nor changed.
//  5. A prepared branch keeps its locks, a finished one has none, and a rollback takes them
//     from a connection that hangs.
//  6. A prepare that comes after the rollback is refused or can be found.
//  7. A context that has ended ends the call.
//
// And of participants that can do more:
//
//  8. Inspecting changes nothing, and reports what is prepared, its owner, and what waits for
//     it ([participant.Inspector], [participant.LockInspector]).
//  9. A branch whose outcome was resolved has ended as reported, for ever, whatever its
//     connection does then ([participant.OutcomeResolver], [txn.OnePhaseCommitter]).
//  10. Reading an outcome does not disturb a branch that is open, and reports only what is
//     proved ([participant.OutcomeReader]).
//
// # Time
//
// Retries go by a ticker and are bounded by [Patience].
package participanttest
