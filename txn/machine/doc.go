// Package machine is the deterministic state machine that the replicated log
// drives: the only place where a global transaction is decided.
//
// [Machine.Apply] takes one log entry, first advances to the entry's tick, then
// carries out its commands, and says what came of it. The same entries give the
// same state, the same results and the same order of work on every replica, at
// every replay.
//
// # Time
//
// The machine reads no clock. Its time is the tick that the leader stamps on
// every entry; at begin the leader computes the tick at which the transaction
// expires, and the machine only compares. A transaction is timed out if and
// only if it is undecided and its expiry is not after the machine's tick. That
// is a derived fact, so that a commit and the timeout cannot disagree. Moving
// the records of a group that has come due is drained in batches of
// [DrainBatch] an entry, so that a million due at once do not stop everything;
// [Machine.Due] says whether some are left.
//
// # Invariants
//
//  1. One decision: a decided transaction never gets another decision.
//  2. A refused command changes nothing.
//  3. An undecided transaction is in the survival index, under its expiry; a
//     decided one is not.
//  4. A decided transaction is finished if and only if all its branches are.
//  5. Finished outcomes are kept for the retention time, in the order of their
//     finishing, those with a hazard until it is forgotten; unfinished ones
//     are never dropped.
//  6. A snapshot and the entries after it give the same state as all entries.
//
// [Machine.Check] audits them all.
//
// # Memory
//
// Records live in slabs without pointers, about 200 bytes an open transaction,
// so that the garbage collector has nothing to walk. A snapshot shares the
// slabs' blocks and makes later writes copy a block once: it pauses the machine
// for microseconds, whatever is open.
//
// # Concurrency
//
// None: one owner at a time. Readers may share it while nobody applies. A
// [Snapshot] may be read by another goroutine while Apply goes on.
package machine
