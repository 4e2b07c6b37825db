// Package participant is the contract between the coordinator and a resource
// that takes part in global transactions: a database, a service, a store.
//
// The application works and prepares in its own session of the resource; the
// coordinator finishes branches, asks what is prepared, and fences off sessions
// that hang. [Participant] is the coordinator's side. Every implementation is
// held to the suite in participant/participanttest.
//
// # Invariants
//
//  1. Not found is never success. A participant that does not know a branch
//     looks for proof; without proof it answers [Unknown], and the coordinator
//     shows a hazard.
//  2. Only what carries the cluster's prefix is ever touched.
//  3. Commit and Rollback may be repeated, by several workers at once, at any
//     time, with the same lasting effect as once.
//  4. An error means: not known whether anything happened; try again.
//
// # Concurrency
//
// A Participant is used by many goroutines at once and honours its context.
package participant
