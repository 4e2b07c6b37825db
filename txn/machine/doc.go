// Package machine is the deterministic state machine that the replicated log drives: the only
// place where a global transaction is decided.
//
// Call [New] for the state before the first entry, or [Restore] for that of a snapshot, and
// [Machine.Apply] for each log entry:
//
//	m := machine.New()
//	fx := m.Apply(machine.Entry{Tick: 1, Commands: []machine.Command{
//		machine.Bootstrap{Cluster: "c1", Interval: 100 * time.Millisecond, Retention: time.Hour, Retain: 1_000_000},
//	}})
//	if fx.Results[0].Code != machine.OK {
//		return fx.Results[0].ToError("bootstrap", txn.ID{})
//	}
//
// Apply first advances to the entry's tick, then carries out its commands, and returns their
// results. The same entries give the same state, the same results and the same order of work on
// every replica, at every replay.
//
// # Time
//
// The machine reads no clock. Its time is the tick that the leader stamps on every entry. At begin the leader computes
// the tick at which the transaction expires, and the machine only compares. A transaction is timed out if and only if it
// is undecided and its expiry is not after the machine's tick. That is a derived fact, so that a commit and the timeout
// cannot disagree. The records of a deadline group that is due are moved in batches of [ExpireBatch] per entry, so that
// a million due at once do not stop everything; [Machine.Due] reports whether some are left.
//
// # Invariants
//
//  1. One decision: a decided transaction never gets another decision.
//  2. A refused command changes nothing.
//  3. An undecided transaction is in the survival index, under its expiry, unless its decision
//     is delegated; a decided one is not.
//  4. A decided transaction is finished if and only if all its branches are.
//  5. Finished outcomes are retained for the retention time, on a hashbelt, in the order of
//     their finishing, or for less if enough younger ones are retained; those with a heuristic
//     outcome until it is forgotten; unfinished ones are never dropped.
//  6. A snapshot and the entries after it give the same state as all entries.
//  7. Every action of an operator that changed something is in the audit trail, of which the
//     newest [MaxAudit] records are kept.
//  8. The id of a removed node is never that of a member again; no two tokens share an id, a
//     name or a secret.
//  9. While recovery is paused, no new transaction begins.
//  10. An undecided transaction that was begun in a client session is in that session's list, in
//     the order of joining the survival index, unless its decision is delegated; a decided one
//     is in none. A session that is open, or has undecided transactions, is never forgotten.
//
// [Machine.CheckInvariants] verifies them all.
//
// # Sessions
//
// One command opens a client session, and another ends it, because the client closed it or because it was not renewed;
// the machine does not know when that is. From the end on, the session's undecided transactions are rolled back by a
// derived fact, as if their tick had come, unless it had come before: whichever was first is the cause. Their records
// are moved in the same batches, after those of the deadlines, session by session.
//
// # Delegation
//
// A transaction with one branch can leave the decision to that branch, which then commits in one phase. It stays
// undecided, its deadline decides nothing, and every command but the report of the branch's end is refused. Recovery
// asks the participant once the deadline has passed. From then on an operator may state the end, if the participant
// never answers ([Resolve].Decides): that decides, with a heuristic outcome.
//
// # Retention
//
// A transaction that has finished without a heuristic outcome has no record. It is on a
// hashbelt ([github.com/txmgr/txmgr/timeout/hashbelt]), encoded, in an arena with all that
// finished in the same step: a 240th of the retention, or 15 s if that is less, or a 60,000th
// if that is more. The belt rotates with the tick, and the outcomes of a step are dropped as a
// whole, by the first entry after the retention of all of them has ended: up to two steps late,
// and never early. When an entry leaves too many, the oldest step is dropped, as long as
// [Bootstrap].Retain outcomes are left without it; the present step always stays. So an entry
// that drops a million outcomes takes no longer than any other.
//
// The step of an outcome follows from the tick at which it finished, and a snapshot needs to
// hold nothing else. A command on an outcome makes a record of it while it is carried out. Two
// facts change an outcome. A late heuristic outcome takes it off the belt, and the record stays
// until the heuristic outcome is forgotten. A branch that turns out to have been ended by the
// application's own statements ([EndedByApplication]) puts it back with that fact recorded, as
// if it had finished now.
//
// # Proof and operators
//
// Proof is stronger than a confirmation. A [ReportHeuristic] that names a branch's true end is taken also when the
// branch was confirmed and the outcome is finished, and it keeps the outcome until an operator forgets the heuristic
// outcome. A [Resolve] is the statement of an operator where the end cannot be proved.
//
// # The cluster
//
// Raft decides which nodes take part. The machine keeps what they reported about themselves ([SetMember]), which ids are
// removed for good ([RemoveMember]), and the tokens that authenticate callers, of whose secrets it knows only the hash.
// What an operator did to the nodes by way of raft is only recorded ([RecordAction]).
//
// In a state that was restored from a backup recovery is paused until an operator has resumed
// it ([ResumeRecovery]): decisions made after the backup are unknown to it. Ticks go on
// meanwhile, and open transactions can be decided, but no branch may be driven.
//
// # Memory
//
// Records live in slabs without pointers, about 290 bytes for an open transaction of two
// branches with its entry in the index, and 156 for a session, so that the garbage collector
// has nothing to scan. A retained outcome of that size is about 155 bytes with its entry in the
// belt's index, or 180 while many are dropped before their time, and up to 220 where some
// hundreds finish in a step: a chunk of an arena is 64 KiB, and the last of a step may be
// nearly empty. A snapshot shares the slabs' blocks and the chunks of the arenas, and makes
// later writes copy a block once: it pauses the machine for microseconds, whatever is open or
// retained. Arenas are freed when they are dropped; slabs never shrink.
//
// # Concurrency
//
// None: one owner at a time. Readers may share it while Apply is not called. A [Snapshot] may
// be read by another goroutine while Apply goes on.
package machine
