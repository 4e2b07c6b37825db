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
// [ExpireBatch] an entry, so that a million due at once do not stop everything;
// [Machine.Due] says whether some are left.
//
// # Invariants
//
//  1. One decision: a decided transaction never gets another decision.
//  2. A refused command changes nothing.
//  3. An undecided transaction is in the survival index, under its expiry, unless
//     its decision is delegated; a decided one is not.
//  4. A decided transaction is finished if and only if all its branches are.
//  5. Finished outcomes are kept for the retention time, on a belt, in the order of their
//     finishing, or for less if enough younger ones are kept; those with a hazard until
//     it is forgotten; unfinished ones are never dropped.
//  6. A snapshot and the entries after it give the same state as all entries.
//  7. Whatever a person did that changed something is in the audit trail, of which
//     the newest [MaxAudit] records are kept.
//  8. The id of a removed node is never that of a member again; no two tokens share
//     an id, a name or a secret.
//  9. While the state is held, no new transaction begins.
//  10. An undecided transaction that was begun in a client's session is in that
//     session's list, in the order of joining the survival index, unless its decision is
//     delegated; a decided one is in none. A session that is open, or has undecided
//     transactions, is never forgotten.
//
// [Machine.CheckInvariants] audits them all.
//
// # Sessions
//
// A client's session is opened by one command and ended by another, because the client
// closed it or because nothing was heard of it; when that is, the machine does not know.
// From the end on its undecided transactions are rolled back by a derived fact, as if
// their tick had come, unless it had come before: whichever was first is the cause.
// Their records are drained in the same batches, behind those of the deadlines, session
// by session.
//
// # Delegation
//
// A transaction with one branch can leave the decision to that branch, which then
// commits in one phase. It stays undecided, its deadline decides nothing, and every
// command but the report of the branch's end is refused: whoever drives branches
// asks the participant once the deadline has passed.
//
// # Retention
//
// What has finished without a hazard has no record. It is on a belt
// ([github.com/txmgr/txmgr/timeout/hashbelt]), encoded, in an arena with all that finished
// in the same step: a 240th of the retention, or 15 s if that is less, or a 60,000th if
// that is more. The belt turns with the tick, and what finished in a step falls off as a
// whole, with the first entry that comes when the retention is over for all of it: up to
// two steps late, and never early. When an entry leaves too many, the oldest step goes, as long
// as [Bootstrap].Retain outcomes are left without it; the present step always stays. So
// the entry that drops a million outcomes is as short as any other.
//
// Which step an outcome is in follows from the tick at which it finished, and that is all that
// a snapshot needs to hold. A command on an outcome gets a record for as long as it
// takes. Two facts change one: a late hazard takes the outcome off the belt, and the record
// stays until the hazard is forgotten; and a branch that turns out to have been ended by the
// application's own statements ([EndedByApplication]) puts it back with the mark, as if it had
// finished now.
//
// # What people say
//
// Proof is stronger than an acknowledgement: a Hazard that names a branch's true
// end is taken also when the branch was acknowledged and the outcome is finished,
// and keeps the outcome until somebody forgets the hazard. A Resolve is a person's
// word where no proof can be had.
//
// # The cluster
//
// Raft says which nodes take part. The machine keeps what they said of themselves
// ([SetMember]), which ids are gone for good ([RemoveMember]), and the tokens that
// admit callers, of whose secrets it knows the hash alone.
//
// A state that was restored from a backup is held until a person has said [ResumeRecovery]:
// what was decided after the backup is unknown to it. Time goes on meanwhile, and
// what is open can be decided, but whoever drives branches must leave them alone.
//
// # Memory
//
// Records live in slabs without pointers, about 290 bytes an open transaction of
// two branches with its entry in the index, and 156 a session, so that the garbage collector has
// nothing to walk. A kept outcome of that size is about 155 bytes with its entry in the
// belt's index, or 180 while many go before their time, and up to 220 where some hundreds finish in a step: a chunk of
// an arena is 64 KiB, and the last of a step may be nearly empty. A snapshot shares the slabs' blocks and the chunks of the arenas, and makes
// later writes copy a block once: it pauses the machine for microseconds, whatever is
// open or kept. Arenas are given back when they fall off; slabs stay as large as they
// have been.
//
// # Concurrency
//
// None: one owner at a time. Readers may share it while nobody applies. A
// [Snapshot] may be read by another goroutine while Apply goes on.
package machine
