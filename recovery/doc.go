// Package recovery sees to it that every branch of a decided transaction ends
// as decided, whatever crashes, and that nothing of this cluster stays prepared
// at a participant without need.
//
// It runs on the leader. The log knows what is undone; recovery asks it, drives
// the branches, and reports what it learnt, so that it owns no state worth
// keeping: a new leader adds all undone work and has taken over.
//
//	Add, Handoff -> planner -> lanes -> pools -> participants -> report to the log
//	                   ^                    |
//	                   +----- backoff ------+
//
// The planner ([Plan]) is pure: it says which branch needs which action, and
// what it has to wait for. Every participant has a lane: queues of branches, a breaker,
// and a pool of its own ([adaptive.Pool]) that finds out how many calls at once are right
// for it. The pool asks the lane for a call when it has a worker; the lane tells it how
// many could begin. What waits for the breaker, for its next try, or for a log that takes
// no results is not told of: it says nothing about how many workers are right, and is no part
// of a call's latency, as waiting for a worker is. [OptimizerSpec] says what decides. In a lane
// commits and prepares, rollbacks and settlements, and what a sweep found have turns,
// 8 : 3 : 1, of those that there are. A lane without work has no pool after half a minute,
// and keeps what was learnt.
//
// What waits for a time, a branch for its next
// try above all, is a task on a timing wheel that the one loop turns: it is put in and
// taken out in constant time, and the loop sleeps until the first is due.
//
// The sweep ([Recovery.Sweep]) looks for branches that nobody drives: a prepare that
// came after the rollback, an acknowledgement that was not true, a branch of a
// forgotten transaction. After it evidence that nobody needs any more is cleared away,
// where a participant is a [participant.Pruner]. [Recovery.InspectLocks], [Recovery.RetryStates],
// [Recovery.History] and [Recovery.Health] tell people what there is and why.
//
// Participants are on a belt: in every Config.SweepEvery each has a visit, which sweeps,
// tidies up, and probes who was not heard of for a while. A visit has a goroutine of
// its own, so that nobody waits for a participant that hangs.
//
// Branches that the application finishes itself are left to it for Config.Grace
// after the decision was seen here. Ordinarily those are all that a transaction has,
// and finished by then: such a one costs its id in a queue.
//
// A transaction whose decision was delegated to its only branch is left to the
// application until its deadline, and then settled: see [participant.OutcomeResolver]. No
// question, record or call is spent on it meanwhile, beyond one question after
// Config.Grace, by which it is ordinarily finished.
//
// # Invariants
//
//  1. Only what the log decided is done. Before every call the log is asked
//     again, and a worker of a deposed leader can only repeat the decision.
//  2. A hung participant delays only itself: it holds at most as many workers as its own
//     pool has, each at most Config.CallTimeout, and after Config.BreakerAfter failures in
//     a row no more than one. When all together hold Config.MaxCalls, everybody still has
//     one, and what ends goes to those who are short, in turn. It teaches nobody
//     anything, itself included: a pool learns from answers, and what runs out of its
//     time, fails, or was done by others counts as no call.
//  3. What is undone costs its id and its branch numbers. Records with errors
//     and times exist only for branches that were tried: of each the latest 16
//     attempts, of all together 65,536 and one for each. A branch whose first
//     attempt succeeds leaves nothing behind. For those of which an attempt failed,
//     was given up, or ended in a hazard, the attempts are kept after the end, of
//     the newest 1,024 such transactions and at most 65,536 in all.
//  4. A result is not lost by a log that is away: it is kept and reported again,
//     and no further calls are made while the log refuses.
//  5. The sweep touches a branch only if its name carries our cluster's tag, it
//     was prepared before and after the log was asked, and the log, asked in
//     between, says that it is decided and driven by nobody, or does not know
//     the transaction. Since begin and enlist are logged before a branch can
//     prepare, a live transaction is always known to a log asked after the first
//     look; and what still stands at the second look was not finished meanwhile.
//  6. A branch that ended otherwise than decided is reported as a hazard, never
//     as done.
//  7. A branch of a transaction that the log does not know is rolled back (presumed
//     abort) unless something speaks for a commit that was forgotten: the
//     participant has proof that the branch was committed once, or cannot be asked
//     for it ([participant.Inspector]); or it is prepared, by the participant's
//     own clock (or, where the participant does not measure that, by its clock and
//     this one, with [ClockSlack] between them), for longer than the log surely remembers decisions (Known.Memory); had
//     a younger one been decided to commit, after it was prepared, the log would
//     still know. Or its transaction was begun within that time, by the clock of
//     whoever made its id: then the log should know it, and has lost it, as the log
//     of a coordinator that was restored from an old copy has. What is not rolled
//     back is left to a person, and told at every sweep.
//  8. Evidence of a branch's end goes only when its transaction is finished without
//     a hazard, or unknown and not lost, and no call for the branch is under way here. Then
//     nobody asks for it again: calls ask the log first; no sweep runs beside the
//     tidying; and a deposed leader's worker has no log to tell. Unknown means
//     forgotten: begin and enlist are logged before the branch can leave evidence,
//     and the log is asked after that was seen.
//  9. The grace is the branch's. The coordinator's own branches of the same
//     transaction do not wait for it, and it does not wait for theirs, however long
//     they hang. There is one after a decision to commit, and after one to roll back
//     by the application or a vote, but not by the clock or a person; and a retry
//     that a person asks for after the decision ends it. Hints change nothing.
//  10. How a participant does is one verdict, in its lane. What a probe has found the
//     next probe takes back, what a sweep has found the next sweep; failures of calls end
//     with an answer, or a sweep that finds nothing left to be done. No probe is made of
//     one that a call or probe has told of within two and a half Config.SweepEvery, unless
//     it failed the last one; at most 16 are under way, each at most Config.CallTimeout.
//
// While the log is held ([Log].Held), because it was restored from a backup, nothing is
// driven, swept, probed or tidied up; a survey shows what would be.
//
// # Concurrency
//
// A [Recovery] serves one term of leadership: New, Start, and Stop when the
// leadership is over. All methods may be called by many goroutines. The [Log] is
// never called with a lock held, so that it may call Add while holding its own. A pool's
// lock is taken with recovery's held, never the other way round.
//
// # Time
//
// Waiting uses the monotonic clock of the process, in ticks of a millisecond: nothing
// is tried early, and less than a tick late. Nothing is decided by it:
// deadlines belong to the log.
//
// # What it does not do
//
// It decides nothing, persists nothing, and does not know how a participant is
// spoken to. It does not judge whether a restored log may be trusted: the owner
// of such a log switches the periodic sweep off (Config.SweepEvery), and the
// tidying with it.
//
// Where a participant does not say since when a branch is prepared (MariaDB), one
// that comes back after its committed transaction was forgotten cannot be told
// from one that was prepared too late, and is rolled back. It takes a server that
// hid the branch for the whole retention time, because each sweep before would have
// committed it: a ghost that outlives the transaction's hazard, or a restored
// backup. Ghosts are shown by the survey, and a transaction with a hazard is not
// forgotten before a person says so: restart the server first, then forget.
package recovery
