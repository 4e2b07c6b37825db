// Package purgatory holds requests that cannot be answered yet: each waits until its condition holds or its deadline
// comes.
//
// # What
//
// A [Request] is parked under one or more keys, with a timeout ([Purgatory.Park]). Whoever changes something that a
// condition depends on says so by its key ([Purgatory.Check]), and the requests that watch the key are tried. One that is
// satisfied is completed; one that is not by its deadline is completed by force; so is one that is cancelled, and what is
// left when the purgatory is stopped. A request is completed exactly once.
//
// # Why
//
// Who waits for a transaction to be decided does nothing meanwhile. A goroutine that does nothing takes three kilobytes
// with its channel and its timer; a parked request takes 178 to 232 bytes of heap, up to 285 with what the runtime
// notes of it, and no goroutine. Most requests end long before their deadline, and the difficulty is to be rid of them: a request stands in a
// timer and in the list of each key. This is the design of the request purgatory of Kafka, which is rid of both at once:
//
//   - The timer is a hierarchical wheel, package [github.com/txmgr/txmgr/timeout/wheel]. A request that is over is
//     unlinked from it in constant time.
//   - The lists of watchers refer to requests weakly. The wheel holds the only strong pointer to a parked request; so
//     when it is out of the wheel it is garbage, whatever lists it stands in.
//   - What is left is an empty entry of a list, of a few words. The runtime tells when a request has been collected, and
//     these entries are counted. When they are as many as the others the lists are swept.
//
// # How
//
//	     the wheel                     the lists, in 64 shards
//	. . [bucket] . . . .              "tx_1" -> watcher -> watcher
//	       |                                       :          :     weakly
//	    request <..................................:          :
//	       |                                                  :
//	    request <.............................................:
//
// One strong pointer, in the wheel, keeps a request; the lists know where it is as long as it is there.
//
//   - A request's word of state says whether somebody is trying it, whether a key was checked meanwhile, which end was
//     forced meanwhile, and whether it is over. Every step is one compare-and-swap. Who comes while another tries leaves
//     a mark and goes; who tries looks for the mark before leaving. So TryComplete and Complete never run at the same
//     time, no lock is held while they run, and no wake-up is lost.
//   - Park tries, watches, and tries again. A change between the first try and the watch finds nobody to wake, and the
//     second try sees it; a change after the watch finds the request.
//   - A list is a stack: the latest watcher comes first. A walk goes from there to the oldest, a stride at a time, so it
//     never meets those that come after it, and ends. It removes the watchers of requests that are over on its way; if one
//     of those that it has returned to be tried is over at the end, its watcher is removed by a second look at the lists.
//     A watcher that was removed keeps its pointer to the next, for walks that stand on it.
//   - Cleanups that the runtime runs (runtime.AddCleanup) count the watchers whose request was collected; removing a
//     watcher counts back. Every watcher is counted once each way, so the difference is the number of empty ones in the
//     lists, in whatever order collector and walks get at them. When there are at least 32 and half of a shard's watchers
//     are empty, the cleanup that has counted the last of them sweeps the shard. A sweep costs as much as what it
//     removes, and there is nothing to configure.
//   - The map of a shard is made anew when it has become four times smaller: Go's maps do not shrink.
//
// # Invariants
//
//  1. Complete is called exactly once for every request that Park has accepted, and never for one that it has refused.
//  2. Satisfied is the outcome exactly if the last TryComplete has reported true, and every TryComplete before it false.
//  3. A request never expires before its timeout has passed, and at most one tick after it, if the goroutine of the clock
//     gets its turn and nobody holds it up.
//  4. TryComplete and Complete of one request never run at the same time, and what one writes the next can read.
//  5. A request that is parked when a Check of one of its keys begins has been tried since when Check returns, or is being
//     tried and will be tried again, by whoever does that or, after 16 rounds of it, by the clock a tick later.
//  6. Every list holds a watcher; every watcher in a list counts as one entry of its shard. A Check leaves no watcher in the
//     list of its key whose request was over when Check met it, or was completed by Check. In lists that are not checked,
//     watchers without a request are at most half of a shard's, or 31, after the garbage collector has run and its
//     cleanups have.
//  7. Nothing in the purgatory holds a request that is over, but for a tick a try of it that was put off; and nothing at
//     all its Request.
//  8. No lock is held while a method of a Request runs, and none is taken while another is held: the order of locks
//     is that there is none.
//
// # Concurrency and time
//
// Everything may be called from everywhere, also from TryComplete and Complete: park, check, cancel, stop. Who checks
// runs the TryComplete and Complete of those that it wakes, in no particular order. What one of them parks, or checks, is
// done within it: a chain of requests that check each other's keys is as deep as it is long.
//
// The purgatory itself reads no clock and starts no goroutine. The runner of its wheel
// ([github.com/txmgr/txmgr/timeout/wheel/runner]) has one of each, which also completes what has expired. Sweeps run
// on goroutines of the runtime.
//
// # What it does not do
//
// It does not know what a key means, nor whether the right keys are checked. It does not order those that wait for one
// key: what only one of them can have goes to any of them. It does not protect itself from a TryComplete or a Complete
// that waits: a deadline that comes meanwhile is kept when it returns.
package purgatory
