// Package ledger is an embedded store of accounts that takes part in global
// transactions: the participant that needs nothing to be set up. It keeps
// integers under names in one bbolt file, with a true prepare phase.
//
// The application's side is [Ledger], the coordinator's is made by [Driver].
// Both may be in different processes, as many as there are, on one machine.
//
// # How it works
//
// A session buffers: a read remembers the version of the account, an addition
// remembers the amount, not the sum. Nothing is locked while the application
// works, so an application that hangs hinders nobody. Prepare checks, and writes
// the changes and a lock for each changed account, in one transaction of the
// file. Commit applies the changes and takes the locks away; rollback only does
// the latter.
//
// Prepare refuses, at once and with the reason, when an account that was read or
// changed is locked by another branch, when one that was read has changed since,
// or when one would go below zero. Refusing instead of waiting means that
// branches never wait for each other in a circle. The order in which branches
// prepare is the order in which they could have run one after the other: what is
// prepared but not finished can neither be read nor changed by a branch that
// prepares later.
//
// # Invariants
//
//  1. After Prepare has voted yes, both Commit and Rollback work, whatever
//     crashes.
//  2. Ends are remembered (at least [maxOutcomeAge] and [maxOutcomes] branches, whichever
//     is over first), so a commit that is repeated is answered with proof.
//  3. A rollback of a branch that is not known is remembered too: a prepare that
//     comes later is refused.
//  4. A branch that commits in one phase was not settled before, and a branch
//     without an end is settled as rolled back: both only as long as no end that
//     came after the branch's begin was forgotten.
//  5. No balance is below zero. An account that nobody changed has the balance
//     zero.
//  6. Every value carries a checksum over its place and its content. What does
//     not match is an error that names the place; it is never skipped.
//  7. After a failed write the store answers nothing more in this process: what
//     the file then holds is known only after it was opened anew.
//
// # Concurrency and time
//
// Everything may be used by many goroutines. The file is opened for each
// operation and locked while it is open; operations that come while it is busy
// share the next opening, and its one commit. Waiting is bounded by the context.
// The wall clock is read for the age of ends and for people; nothing else depends
// on it.
//
// # What it does not do
//
// It forgets ends after a time, and then says unknown. It is a store for
// demonstrations, tests and small services: all writes go through one file.
package ledger
