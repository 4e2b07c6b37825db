// Package sim is the simulation: a complete cluster of real coordinators on a simulated network,
// simulated disks and clocks, with models of databases and services, in a bubble of
// testing/synctest. A simulated minute takes a fraction of a second, so thousands of minutes with
// faults run in the time of a real one. Call [Run] in a bubble:
//
//	synctest.Test(t, func(t *testing.T) { outcome = sim.Run(sim.Plan{Seed: seed}) })
//
// # What is real, and what is modelled
//
// Real: package node and all below it, raft itself, and the application's side of package txn.
// Modelled: the transport of raft, its disk, the wall clock, the participants, and the
// application's connections to them. The models of PostgreSQL and MariaDB behave as the servers
// were observed to behave, including false answers: a branch that is "not there", an answer that is
// lost on its way back, a success without effect (see mariadb.go), xids that are assigned again
// after a crash.
//
// # Faults
//
// Every run draws its faults, their frequency and their times from its seed: see nemesis.go. Each
// fault counts its occurrences; over a batch of seeds none may be missing, and a run with too
// little load is a failure.
//
// A goroutine cannot be suspended. A suspended node is modelled by blocking everything that enters
// or leaves it: its network, its disk and its calls to participants, and calls to it. Its timers
// run, so that it is behind when it resumes, as a process after SIGSTOP is.
//
// A crashed node is disconnected, and continues on a copy of its disk that nothing reads; the next
// process begins with what had been synced, and by chance with a part of what was being synced.
//
// A disk that is full, or fails, ends the process soon after the first failed write, as logstore
// and the process do; until then nothing may be acknowledged. The process restarts when the disk
// works again.
//
// # Invariants that are checked
//
//  1. Atomic: every branch of a transaction ended as the log decided, once.
//  2. Acknowledged is final: what a client was told is what the log decided.
//  3. One decision for each transaction; logs of all nodes agree.
//  4. Never early: no transaction times out before its time has passed, by the simulation's own
//     clock, since a call for it began; and, without faults, at most an interval and a commit
//     late.
//  5. After the faults, no branch of the cluster stays prepared, and no connection keeps the work
//     of a transaction that has ended.
//  6. Branches that other applications prepared are not changed.
//  7. The calls about one transaction are linearizable.
//  8. The state of every node, and every snapshot, is that of a replay of the log.
//  9. Terminal answers do not change.
//  10. A session expires no earlier than its TTL after it was opened, and after the arrival at a
//     node of the last keep-alive that was answered, by the simulation's own clock. Without
//     faults, it expires at most a rotation and a commit after that; in any case none is open
//     after the faults.
//  11. Commands after the end of a session in the log commit none of its transactions, and what
//     was undecided there is rolled back by that cause, unless its deadline had passed before.
//     Delegated and appointed transactions are an exception: their branch decides. Half of the applications
//     name their transactions without a call, so that a single branch is appointed; where its begin was lost, the log may
//     not know what it has committed. A quarter of the transactions have several branches, each of which is appointed in place
//     of the one before: when the last has committed, which is the decision, all others are prepared, or committed already.
//  12. Every node has the sessions of the log. A session that was reported as ended is not
//     reported open later.
//  13. An id that was decided never begins a second transaction, also if its outcome was
//     forgotten. Every third run keeps outcomes for some seconds only, or some dozens of them,
//     and begins are repeated late, each with the mark of its id. In these runs wall clocks are
//     wrong by a minute at most, which is the condition of the promise about ids without a mark.
//
// # How to read a failure
//
// A failing seed prints its violations and the end of its trace, and the command that runs it
// again. The same seed gives the same plan, but not exactly the same run: goroutines, and raft's
// own elections, are not drawn from it. Run it ten times.
//
// A panic in a goroutine of raft shows the seed as a label of that goroutine; one for want of an
// entry is preceded by the trace. What does not end is printed with all stacks.
//
// # Concurrency
//
// One [World] is one bubble. Worlds share nothing and may run at the same time.
//
// A request is carried out although its caller has given up. So its answer is sent on a channel
// alone, and the state of a model, including its connections, is read under the model's lock. Under
// the race detector there are no exceptions: a report is an error in the simulation or in the
// product, and is fixed there.
package sim
