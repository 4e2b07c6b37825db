// Package recovery carries out phase two: it drives every branch of a decided transaction to the
// decision, through crashes and retries, and leaves no branch of this cluster prepared at a
// participant without need. Call [New] with a [Log] when the node becomes leader, then
// [Recovery.Start]; call [Recovery.Add] for each transaction that may have work, and
// [Recovery.Stop] when the leadership ends:
//
//	r := recovery.New(recovery.Config{Cluster: cluster}, log)
//	r.Start()
//	defer r.Stop()
//	r.Add(ids...)
//
// Recovery runs on the leader. The log knows which work is pending; recovery reads it there,
// drives the branches, and reports the results. It owns no state worth keeping: a new leader adds
// all pending transactions and has taken over.
//
//	Add, DeferToClient -> planner -> lanes -> pools -> participants -> report to the log
//	                         ^                    |
//	                         +----- backoff ------+
//
// The planner ([plan.Plan]) is pure: it computes which branch needs which action, and what the action
// has to wait for. Every participant has a lane: queues of branches, a breaker, and a pool of its
// own ([adaptive.Pool]) that adapts the number of concurrent calls to the participant. The pool
// asks the lane for a call when it has a free worker; the lane tells the pool how many calls are
// ready. Branches that wait for the breaker, for their next attempt, or for a log that accepts no
// results are not ready: they carry no information about the right number of workers, and their
// wait is not part of a call's latency, as waiting for a worker is. [OptimizerSpec] selects the
// optimizer. A lane serves three queues in weighted round robin, 8 : 3 : 1, of those that have
// work: commits and prepares, rollbacks and outcomes to resolve, and the branches that a sweep
// found. A lane without work closes its pool after half a minute, and keeps what the optimizer
// learnt.
//
// Everything that waits for a time, above all a branch for its next attempt, is a task on a timing
// wheel that the one loop advances: it is added and removed in constant time, and the loop sleeps
// until the first task is due.
//
// The sweep ([Recovery.Sweep]) scans the participants for orphans, prepared branches that nothing
// drives (recovery/scan), and ends them: a prepare that
// came after the rollback, a false acknowledgement, a branch of a forgotten transaction. After it,
// commit records that are not needed any more are pruned, where a participant is a
// [participant.Pruner]. [Recovery.InspectLocks], [Recovery.RetryStates], [Recovery.History] and
// [Recovery.Health] report the state to operators.
//
// Participants are on a hashbelt: in every Config.SweepEvery each is visited once. A visit sweeps,
// prunes, and probes a participant without recent contact. A visit has a goroutine of its own, so
// that a participant that hangs delays no other.
//
// Branches that the client completes are left to it for Config.ClientGrace after the decision was
// seen here. Ordinarily a transaction has only such branches, and they are finished by then: such
// a transaction costs its id in a queue.
//
// A transaction whose decision was delegated to its only branch is left to the application until
// its deadline; then the outcome is resolved: see [participant.OutcomeResolver]. Until then it
// costs no question, record or call, except one question after Config.ClientGrace, by which time
// it is ordinarily finished. An appointed branch is resolved at the deadline, or when a rollback is asked for, and the others are
// left alone until then. A sweep that finds one of them prepared for longer than Config.ClientGrace has the appointed one asked
// ([participant.OutcomeReader]), and reports a commit that is proved, in case the client died after it.
//
// The files are prefixed by their part in this: plan (what has to be done, and when), queue (the
// lanes), call (the pools and the attempts), report (the results, for the log and for operators),
// health, and sweep. What needs nothing of the state that the mutex guards is in the packages
// below this one.
//
// # Invariants
//
//  1. Recovery acts only on the log's decision. Before every call the log is read again, and a
//     worker of a deposed leader can only repeat the decision.
//  2. A hung participant delays only itself: it holds at most as many workers as its own pool has,
//     each at most Config.CallTimeout, and after Config.BreakerThreshold failures in a row no more
//     than one. When all participants together hold Config.MaxCalls, each still has one call, and
//     calls that end go to the starved lanes in turn. Timeouts, failures and calls whose work was
//     done by others are not samples for any optimizer, the participant's own included; only
//     answered calls are.
//  3. A pending transaction costs its id and its branch numbers. Records with errors and times
//     exist only for branches that were tried: of each the latest 16 attempts, of all together
//     65,536 and one for each. A branch whose first attempt succeeds leaves nothing behind. For
//     those of which an attempt failed, was given up, or ended in a heuristic outcome, the
//     attempts are kept after the end, of the newest 1,024 such transactions and at most 65,536 in
//     all.
//  4. A result is not lost while the log is unavailable: it is kept and reported again, and no
//     further calls are made while the log refuses.
//  5. The sweep touches a branch only if its name carries this cluster's id, it was prepared
//     before and after the log was read, and the log, read in between, either has it decided and
//     driven by nothing, or does not know the transaction. Since begin and enlist are logged
//     before a branch can prepare, a live transaction is always known to a log read after the
//     first scan; and a branch that is still prepared at the second scan was not finished
//     meanwhile. An appointed branch may be asked at any time: of the answers only a proved commit counts, which stays true.
//  6. A branch that ended otherwise than decided is reported as a heuristic outcome, never as
//     done.
//  7. A branch of a transaction that the log does not know is rolled back (presumed abort) unless
//     there is evidence for a commit that was forgotten: the participant has proof that the branch
//     was committed once, or cannot be asked for it ([participant.Inspector]); or it is prepared,
//     by the participant's own clock (or, where the participant does not measure that, by its
//     clock and this one, with [ClockSlack] between them), for longer than the log surely
//     remembers decisions (BranchStatus.RetentionHorizon); had a younger one been decided to
//     commit, after it was prepared, the log would still know. Or its transaction was begun within
//     that time, by the clock that made its id: then the log should know it, and has lost it, as
//     the log of a coordinator that was restored from an old copy has. A branch that is not rolled
//     back is left to the operator, and reported at every sweep.
//  8. A commit record is removed only when its transaction is finished without a heuristic
//     outcome, or unknown and not lost, and no call for the branch is under way here. Then it is
//     never needed again: calls read the log first; no sweep runs during pruning; and a deposed
//     leader's worker has no log to report to. Unknown means forgotten: begin and enlist are
//     logged before the branch can leave a commit record, and the log is read after the record was
//     seen. Only a branch that is appointed by a begin which was not awaited can leave one before: so
//     the record of an unknown transaction stays until such a begin would be refused.
//  9. The grace period belongs to the branch. The coordinator's own branches of the same
//     transaction do not wait for it, and it does not wait for theirs, however long they hang. It
//     applies after a decision to commit, and after a rollback by the application or a vote, but
//     not by the timeout or an operator; and a retry that an operator requests after the decision
//     ends it. Hints change nothing.
//  10. A participant's health is one status, in its lane. A failed probe is cleared by the next
//     probe, a failed sweep by the next sweep; failures of calls are cleared by an answer, or by a
//     sweep that finds nothing left to be done. A participant is not probed when a call or probe
//     has reported on it within two and a half Config.SweepEvery, unless it failed the last probe;
//     at most 16 probes are under way, each at most Config.CallTimeout.
//
// While recovery is paused ([Log].RecoveryPaused), because the log was restored from a backup,
// nothing is driven, swept, probed or pruned; [Recovery.InspectLocks] still shows what a sweep
// would do.
//
// # Concurrency
//
// What starts each goroutine, and what ends it; Stop waits for all of them:
//
//	Start --+-- loop ----------------------- ends with Stop
//	        |     plans the inbox, fires timers
//	        +-- runSweeps ------------------ ends with Stop
//	              +-- sweepParticipant ----- ends with the visit: sweep, probe, prune
//	a lane gets work
//	        +-- pool (adaptive.Pool) ------- closed without work, or by Stop
//	              +-- workers -------------- take calls from the lane's taskSource
//	a pool is closed without work
//	        +-- closePoolLocked ------------ ends when the pool is closed, and keeps what was learnt
//	a result is to be recorded
//	        +-- report --------------------- ends with its call to the log; at most Config.MaxReports at once
//	a participant goes down or recovers
//	        +-- notifyHealthChanges -------- ends when Config.OnHealthChange has all changes
//
// A [Recovery] serves one term of leadership: New, Start, and Stop when the leadership ends. All
// methods may be called by many goroutines. The [Log] is never called with a lock held, so that it
// may call Add while holding its own. A pool's lock is taken with recovery's held, never the other
// way round.
//
// # Time
//
// Waiting uses the monotonic clock of the process, in ticks of a millisecond: nothing is tried
// early, and less than a tick late. No decision depends on it: deadlines belong to the log.
//
// # What it does not do
//
// It decides nothing, persists nothing, and does not know the protocols of participants. It does
// not judge whether a restored log may be trusted: the owner of such a log switches the periodic
// sweep off (Config.SweepEvery), and pruning with it.
//
// Where a participant does not report since when a branch is prepared (MariaDB), a branch that
// reappears after its committed transaction was forgotten cannot be distinguished from one that
// was prepared too late, and is rolled back. This takes a server that hid the branch for the whole
// retention time, because each sweep before would have committed it: orphaned locks that outlive
// the transaction's heuristic outcome, or a restored backup. [Recovery.InspectLocks] shows
// orphaned locks, and a transaction with a heuristic outcome is not forgotten before an operator
// forgets it: restart the server first, then forget.
package recovery
