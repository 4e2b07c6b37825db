// Package timeout is the family of structures that answer one question: what is due?
//
// Four structures live below it. Each has its own strength, and each does one job of the coordinator:
//
//   - [github.com/txmgr/txmgr/timeout/survival] groups transactions by the invocation of the timeout thread that ends
//     them. Every replica keeps one, driven by the log alone: it decides when a transaction times out.
//   - [github.com/txmgr/txmgr/timeout/wheel] is a hierarchical timing wheel for tasks of one process: retries, long polls.
//   - [github.com/txmgr/txmgr/timeout/heap] is a balanced binary heap of the elements themselves: the delay queue under
//     the wheel's clock.
//   - [github.com/txmgr/txmgr/timeout/hashbelt] is a ring of containers that ages whole containers instead of objects:
//     retention and sessions.
//
// # The contract
//
// An entry is added with the tick at which it ends and answers a handle. The handle cancels it. The owner advances the
// structure to a tick and takes what is due. How many entries are pending and when the next one ends can be asked at any
// time.
//
// Invariants that all four keep:
//
//  1. No entry is handed out before its tick.
//  2. An entry is handed out exactly once, or cancelled exactly once, never both.
//  3. Entries come out in the order of their ticks; each package says what holds inside one. (The ticks of a hashbelt are
//     its rotations.)
//  4. A cancel with the handle of an entry that is gone changes nothing and says so.
//  5. The same calls in the same order have the same results, in every process.
//
// # Time and concurrency
//
// None of the structures reads a clock and none starts a goroutine: the caller passes the tick. That is what makes them
// testable without waiting and what makes them replicable. Each has one owner; whoever shares one guards it.
//
// # What it does not do
//
// The package holds the words of the contract and no structure. It does not turn durations into ticks (survival.NewIndex
// does) and it does not run what is due: that is for the owner, who knows what else must hold.
package timeout
