// Package sim is the simulation: a whole cluster of real coordinators on a network,
// disks and clocks that are not real, with databases and services that are models,
// in a bubble of testing/synctest. A minute of it takes a fraction of a second, so
// that thousands of bad minutes can be tried where one real one would be.
//
// # What is real, and what is not
//
// Real: package node and all below it, raft itself, and the application's side of
// package txn. Modelled: the transport of raft, its disk, the wall clock, the
// participants, and the application's own sessions there. The models of PostgreSQL
// and MariaDB behave as those were seen to behave, where they lie too: a branch that
// is "not there", an answer that is lost on its way back, a success that is none
// (see mariadb.go), numbers of transactions that are given out again after a crash.
//
// # Faults
//
// Every run draws the faults that it has, how often, and when, from its seed: see
// nemesis.go. Each counts how often it has happened; over a batch of seeds none may
// be missing, and a run with too little traffic is a failure.
//
// A goroutine cannot be frozen. A paused node is one of which nothing gets out and
// nothing in: its network, its disk and its calls to participants stand still until
// it goes on, as do calls to it. Its timers run, so that it finds itself behind when
// it wakes, as a process after SIGSTOP does.
//
// A crashed node is cut off, and goes on with a copy of its disk that nobody sees;
// the next life begins with what had been synced, and by chance with a part of what
// was being synced.
//
// A disk that is full, or fails, ends the life soon after its first write in vain, as
// logstore and the process do; until then nothing may be acknowledged. It begins again
// when there is a disk.
//
// # Invariants that are checked
//
//  1. Atomic: every branch of a transaction ended as the log decided, once.
//  2. Acknowledged is final: what a client was told is what the log decided.
//  3. One decision for each transaction; logs of all nodes agree.
//  4. Never early: no transaction times out before its time has passed, by the
//     simulation's own clock, since a call for it began; and, when all is well,
//     not later than an interval and a commit.
//  5. Nothing of ours stays prepared, and no session keeps the work of a
//     transaction that has ended, after the faults are over.
//  6. What others prepared is left alone.
//  7. The calls about one transaction are linearizable.
//  8. The state of every node, and every snapshot, is that of a replay of the log.
//  9. Terminal answers do not change.
//  10. A session expires no earlier than its TTL after it was opened, and after the last
//     sign of life that was answered, by the simulation's own clock, since that had come
//     to a node. When all is well, it expires a rotation and a commit after that at most;
//     whatever was, none is open after the faults are over.
//  11. What comes behind the end of a session in the log commits nothing of it, and what
//     was undecided there is rolled back by that cause, unless its time was over before.
//     What was delegated is not: its branch decides.
//  12. Every node has the sessions of the log. A session that was said to have ended is
//     not said to be open later.
//  13. An id that was decided never begins a second transaction, also when its outcome was
//     forgotten. Every third run keeps outcomes for some seconds only, or some dozens of
//     them, and begins are repeated late, each with the mark of its id. There wall clocks
//     are wrong by a minute at most, as the promise about ids without a mark has it.
//
// # How to read a failure
//
// A failing seed prints what it violates and the end of its story, and how to run it
// again. The same seed gives the same plan, but not the same run to the last step:
// goroutines, and raft's own elections, are not drawn from it. Run it ten times.
//
// A panic in a goroutine of raft's shows the seed as a label of that goroutine; one for
// want of an entry is preceded by the story. What does not come to its end is shown with
// all stacks.
//
// # Concurrency
//
// One [World] is one bubble. Worlds share nothing and may run at the same time.
//
// A request is carried out although whoever sent it has given up. So its answer comes by a
// channel alone, and the state of a model, that of sessions too, is read under the model's
// lock. Under the race detector nothing is excused: a report is of the simulation or of the
// product, and to be mended there.
package sim
