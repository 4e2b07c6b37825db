// Package recovery sees to it that every branch of a decided transaction ends
// as decided, whatever crashes, and that nothing of this cluster stays prepared
// at a participant without need.
//
// It runs on the leader. The log knows what is undone; recovery asks it, drives
// the branches, and reports what it learnt, so that it owns no state worth
// keeping: a new leader adds all undone work and has taken over.
//
//	Add, Handoff -> planner -> lanes -> pool -> participant -> report to the log
//	                   ^                  |
//	                   +---- backoff -----+
//
// The planner ([Plan]) is pure: it says which branch needs which action, and
// what it has to wait for. Every participant has a lane: a queue of branches, a
// limit of calls at once, and a breaker. The sweep ([Recovery.Sweep]) looks for
// branches that nobody drives: a prepare that came after the rollback, an
// acknowledgement that was not true, a branch of a forgotten transaction.
//
// # Invariants
//
//  1. Only what the log decided is done. Before every call the log is asked
//     again, and a worker of a deposed leader can only repeat the decision.
//  2. A hung participant delays only itself: it holds at most
//     Config.PerParticipant workers, each at most Config.CallTimeout, and after
//     Config.BreakerAfter failures in a row no more than one.
//  3. What is undone costs its id and its branch numbers. Records with errors
//     and times exist only for branches that were tried, and only until they
//     are finished.
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
//
// # Concurrency
//
// A [Recovery] serves one term of leadership: New, Start, and Stop when the
// leadership is over. All methods may be called by many goroutines. The [Log] is
// never called with a lock held, so that it may call Add while holding its own.
//
// # Time
//
// Waiting uses the monotonic clock of the process. Nothing is decided by it:
// deadlines belong to the log.
//
// # What it does not do
//
// It decides nothing, persists nothing, and does not know how a participant is
// spoken to. It does not judge whether a restored log may be trusted: the owner
// of such a log switches the periodic sweep off (Config.SweepEvery).
package recovery
