// Package timeout is the contract of four structures that determine what is due. Call the
// structure that fits the job; [Structure] is what they have in common:
//
//   - [github.com/txmgr/txmgr/timeout/survival] groups transactions by the invocation of the
//     timeout thread that ends them. Every replica keeps one, driven by the log alone: it decides
//     when a transaction times out (txn/machine/expiry.go).
//   - [github.com/txmgr/txmgr/timeout/wheel] is a hierarchical timing wheel for tasks of one
//     process: retries, long polls.
//   - [github.com/txmgr/txmgr/timeout/heap] is a balanced binary heap of the elements themselves:
//     the delay queue under the wheel's clock.
//   - [github.com/txmgr/txmgr/timeout/hashbelt] is a ring of containers that ages whole containers
//     instead of objects: retention and sessions.
//
// # The contract
//
// An entry is added with the tick at which it ends; Add returns a handle, which cancels the entry.
// The owner advances the structure to a tick and takes what is due. The number of pending entries
// and the next end can be read at any time.
//
// Invariants that all four keep:
//
//  1. No entry is handed out before its tick.
//  2. An entry is handed out exactly once, or cancelled exactly once, never both.
//  3. Entries come out in the order of their ticks; each package says what holds inside one. (The
//     ticks of a hashbelt are its rotations.)
//  4. A cancel with the handle of an entry that is gone changes nothing and reports false.
//  5. The same calls in the same order have the same results, in every process.
//
// # Time and concurrency
//
// None of the structures reads a clock and none starts a goroutine: the caller passes the tick.
// That makes them testable without waiting, and replicable. Each has one owner; an owner that
// shares one has to guard it.
//
// # What it does not do
//
// The package holds the contract and no structure. It does not turn durations into ticks
// (survival.NewIndex does) and it does not act on entries that are due: that is for the owner,
// which knows what else must hold.
package timeout
