// Package ledger is an embedded store of accounts that takes part in global transactions: the
// participant that needs no server. It keeps integers under names in one bbolt file, with a
// true prepare phase. Call [New] in the application and register the same file at the
// coordinator:
//
//	bank := ledger.New("bank", "/var/lib/bank/ledger.db")
//	err := txn.Run(ctx, m, txn.Options{Name: "transfer"}, func(ctx context.Context, tx *txn.Tx) error {
//		return bank.Move(ctx, tx, "alice", "bob", 10)
//	})
//
// [Ledger] is the application's side; [Driver] makes the coordinator's. Both may be in
// different processes, any number of them, on one machine.
//
// # How it works
//
// A branch buffers: a read records the version of the account, an addition records the amount,
// not the sum. Nothing is locked while the application works, so an application that hangs
// blocks no other. Prepare checks, and writes the changes and a lock for each changed account,
// in one transaction of the file. Commit applies the changes and removes the locks; rollback
// only does the latter.
//
// Prepare refuses, at once and with the reason, when an account that was read or changed is
// locked by another branch, when one that was read has changed since, or when one would go
// below zero. It refuses instead of waiting, so that branches never deadlock. The order in
// which branches prepare is the order in which they could have run one after the other:
// accounts of a branch that is prepared but not finished can neither be read nor changed by a
// branch that prepares later.
//
// # Invariants
//
//  1. After Prepare has voted yes, both Commit and Rollback work, whatever crashes.
//  2. Outcomes are retained (for at least [maxOutcomeAge] or [maxOutcomes] branches, whichever
//     ends first), so a commit that is repeated is answered with proof.
//  3. A rollback of a branch that is not known is recorded too: a prepare that comes later is
//     refused.
//  4. A branch commits in one phase only if its outcome was not resolved before, and a branch
//     without an outcome is resolved as rolled back: both only as long as no outcome that came
//     after the branch's begin was forgotten.
//  5. No balance is below zero. An account that was never changed has the balance zero.
//  6. Every value carries a checksum over its place and its content. A mismatch is an error
//     that names the place; it is never skipped.
//  7. After a failed write the store answers nothing more in this process: what the file then
//     holds is known only after it was opened anew.
//
// # Concurrency and time
//
// Everything may be used by many goroutines. The file is opened for each operation and locked
// while it is open; operations that come while it is busy share the next opening, and its one
// commit. Waiting is bounded by the context. The wall clock is read for the age of outcomes and
// for display; nothing else depends on it.
//
// # What it does not do
//
// It forgets outcomes after a time, and then reports unknown. It is a store for demonstrations,
// tests and small services: all writes go through one file.
package ledger
